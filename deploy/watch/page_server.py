"""The web server of the live page, on the loopback interface. The page's address contains a token."""

from __future__ import annotations

import asyncio
import getpass
import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from schedbed.cluster.faults import KINDS
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.http_gate import HttpGate, Refusal
from schedbed.deploy.failures import RunFailed, port_told
from schedbed.deploy.http_thread import Handler, HttpThread, error_answer, errors_as_json, object_in
from schedbed.deploy.workspace import token_file
from schedbed.scheduler.history import places_of
from schedbed.tasks.errors import BadInput

LOOK_ONLY = {"submits": False, "read_only": True}
QUEUE_MOST = 64
"""Most queued events of a page; a page that is further behind gets a snapshot instead."""
ALIVE_S = 15.0  # Interval of comment lines, by which closed pages are noticed.
LINGER_S = 10.0  # Longest wait for open pages to fetch the report.
BODY_BYTES = 64 << 10
FILES = {"watch.js": "text/javascript", "swimlane.js": "text/javascript", "watch.css": "text/css"}
OWN = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
REPORT = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
LOOPBACK = ("127.0.0.1", "localhost")

BUTTON_FAULTS = {
    kind.name: kind.about
    for kind in KINDS.values()
    if kind.target == "nodes" and not kind.parameters and {kind.name: ""} in kind.spellings
}
"""The kinds of faults that need only a node, and so can have a button, with their descriptions."""

Json = dict[str, Any]


class Controls(Protocol):
    """The operations of the live page's buttons, called from any thread. All raise BadInput, RunFailed or
    MasterGone.
    """

    def kill(self, job: str) -> None: ...
    def fault(self, fault: Any) -> Json: ...
    def submit(self, request: Json) -> list[str]: ...


class PageClient:
    """An open page in a browser, with a queue of at most `most` events to send to it.

    If it reads too slowly, the queue is cleared, and it gets a snapshot instead. With `looks_only`, it has no
    buttons.
    """

    def __init__(self, most: int = QUEUE_MOST, *, looks_only: bool = False) -> None:
        self._most = most
        self.looks_only = looks_only
        self._events: deque[bytes] = deque()
        self.is_behind = False
        self.wake = asyncio.Event()

    def put(self, event: bytes) -> None:
        """Append an event. If the queue is full, drop all events until the page has received a snapshot."""
        if len(self._events) >= self._most:
            self._events.clear()
            self.is_behind = True
        if not self.is_behind:
            self._events.append(event)
        self.wake.set()

    def take(self) -> list[bytes]:
        """Return all queued events, and clear the queue."""
        found = list(self._events)
        self._events.clear()
        self.wake.clear()
        return found


class LivePage:
    """Sends the events of a run to all open pages. Another thread serves them, so slow ones never block the caller."""

    def __init__(self, *, submits: bool = False, read_only: bool = False) -> None:
        self.read_only = read_only
        self.controls: Controls | None = None
        self._may_look: Callable[[bytes], bool] = lambda _: False
        self.url = ""  # With the token; "" until the page is served.
        self.report: Path | None = None
        self._feed = RunFeed(submits=submits, read_only=read_only)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: set[PageClient] = set()
        self._fetched = 0

    # Called by the driver.

    def begin(self, nodes: Any, about: Mapping[str, Any]) -> None:
        """Begin a run, described by `about`: policy, repeat and place among the command's runs."""
        with self._lock:
            self._tell(self._feed.begin(nodes, about))

    def show_to(self, may_look: Callable[[bytes], bool]) -> None:
        """Let clients whose token `may_look` accepts open the page, too, without buttons."""
        self._may_look = may_look

    def take_rows(self, table: str, rows: Any) -> None:
        """Store new rows, which are sent with the next status."""
        with self._lock:
            self._feed.take_rows(table, rows)

    def take_status(self, status: Mapping[str, Any]) -> None:
        """Send the changes since the JobTracker's last status."""
        with self._lock:
            self._tell(self._feed.take_status(status))

    def take_condition(self, now_s: float, held: Mapping[str, Any], down: Mapping[str, Any]) -> None:
        """Send what faults do to nodes, and which masters are down, with ends in seconds or None."""
        with self._lock:
            self._tell(self._feed.take_condition(now_s, held, down))

    def finish(self, state: str, note: str) -> None:
        """End the run in this state, and send its metrics with the note. Buttons then have no effect."""
        self.controls = None
        with self._lock:
            self._tell(self._feed.finish(state, note))

    def over(self, report: Path) -> None:
        """Redirect open pages to the report. Wait at most LINGER_S seconds until all have fetched it."""
        self.report = report if report.is_file() else None
        with self._lock:
            waiting = len(self._clients)
            self._tell(self._feed.over(self.report is not None))
        give_up_s = time.monotonic() + LINGER_S
        while self.report and self._clients and self._fetched < waiting and time.monotonic() < give_up_s:
            time.sleep(0.1)

    def _tell(self, event: Json) -> None:
        if self._clients and self._loop is not None:  # Events are encoded only for open pages.
            self._loop.call_soon_threadsafe(self._publish, event)

    # Called in the server's thread.

    def _publish(self, event: Json) -> None:
        text = written(event["event"], event["data"])
        for client in self._clients:
            client.put(text)

    def joined(self, client: PageClient) -> bytes:
        """Add a client to the open pages, and return the first event to send to it: a snapshot of the run."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._clients.add(client)
            client.is_behind = False
            found = self._feed.snapshot()
        if client.looks_only:
            found = found | {"page": LOOK_ONLY}
        return written("all", found)

    def may_look(self, token: bytes) -> bool:
        return self._may_look(token)

    def left(self, client: PageClient) -> None:
        self._clients.discard(client)

    def fetched(self) -> None:
        self._fetched += 1


def written(event: str, data: Json) -> bytes:
    """Return a server-sent event with JSON on one line."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


@contextmanager
def watching(port: int | None, folder: Path, *, submits: bool, read_only: bool) -> Iterator[LivePage | None]:
    """Serve the live page at `port` (0: any free one), and yield it; yield None if `port` is None.

    At the end, open pages are redirected to the report in `folder`. `submits` adds a form for jobs, which a
    `read_only` page lacks, with the buttons. Raises RunFailed if the port is in use.
    """
    if port is None:
        yield None
        return
    watch, token = LivePage(submits=submits, read_only=read_only), secrets.token_hex(32)
    with ExitStack() as stack:
        with port_told("--web", port):
            server = stack.enter_context(serve_page(watch, token, port))
        watch.url = f"{server.url}/?token={token}"
        stack.enter_context(token_file(folder / "web-url", watch.url + "\n"))
        yield watch
        watch.over(folder / "report.html")


def serve_page(watch: LivePage, token: str, port: int) -> HttpThread:
    """Return a context manager that serves the page at `port` (0: any free one). `token` opens it with buttons."""
    refusal = Refusal("text/plain", b"no valid token")
    gate = HttpGate(token, refusal, parameter="token", others=watch.may_look)
    app = web.Application(
        middlewares=[gate.middleware(), _Guard(gate).middleware()], client_max_size=BODY_BYTES
    )
    handlers = _PageHandlers(watch, gate)
    app.router.add_get("/", handlers.page)
    app.router.add_get("/events", handlers.events)
    app.router.add_get("/report", handlers.finished)
    app.router.add_get("/{file}", handlers.file)
    app.router.add_post("/kill", handlers.kill)
    app.router.add_post("/fault", handlers.fault)
    app.router.add_post("/submit", handlers.submit)
    return HttpThread(app, gate, port=port, threads=8)


class _Guard:
    """Checks requests that have passed the check of the token.

    The header Host must name the loopback interface, and requests that change the run need the token in the
    header Authorization. Errors become one-line answers. Headers forbid other sites to use the page.
    """

    def __init__(self, gate: HttpGate) -> None:
        self._gate = gate

    def middleware(self) -> Any:
        """Return a middleware, to run after the check of the token."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = self._refusal(request) or await errors_as_json(request, handler)
            if not response.prepared:
                response.headers.setdefault("Content-Security-Policy", OWN + CLOSED)
                response.headers.update(SAFE)
            return response

        return guard

    def _refusal(self, request: web.Request) -> web.Response | None:
        host, _, port = request.headers.get("Host", "").rpartition(":")
        if host.lower() not in LOOPBACK or not port.isdigit():
            return error_answer(403, "Host: expected 127.0.0.1 or localhost")
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{request.headers['Host']}":
            return error_answer(403, "Origin: expected this page")
        if request.method not in ("GET", "HEAD"):
            scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
            if scheme != "Bearer" or not self._gate.unauthenticated.is_token(shown.strip()):
                return error_answer(401, "no token that may change the run in the header Authorization")
        return None


SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _PageHandlers:
    """The request handlers of the live page's routes."""

    def __init__(self, watch: LivePage, gate: HttpGate) -> None:
        self._watch, self._gate = watch, gate

    async def page(self, request: web.Request) -> web.Response:
        from schedbed.deploy.results.page.templates import fill

        text = fill(_part("watch.html"), token=request.query.get("token", ""), faults=BUTTON_FAULTS)
        return web.Response(text=text, content_type="text/html")

    async def file(self, request: web.Request) -> web.Response:
        name = request.match_info["file"]
        if name not in FILES:
            raise web.HTTPNotFound
        return web.Response(text=_part(name), content_type=FILES[name])

    async def finished(self, _: web.Request) -> web.Response:
        if self._watch.report is None:
            raise web.HTTPNotFound
        body = await asyncio.to_thread(self._watch.report.read_bytes)
        response = web.Response(body=body, content_type="text/html", charset="utf-8")
        response.headers["Content-Security-Policy"] = REPORT + CLOSED
        self._watch.fetched()
        return response

    async def events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **SAFE})
        await response.prepare(request)
        token = request.query.get("token") or request.headers.get("Authorization", "").partition(" ")[2]
        client = PageClient(looks_only=not self._gate.unauthenticated.is_token(token.strip()))
        try:
            await response.write(self._watch.joined(client))
            while True:
                try:
                    await asyncio.wait_for(client.wake.wait(), ALIVE_S)
                except TimeoutError:
                    await response.write(b": still here\n\n")
                events = client.take()
                if client.is_behind:
                    events = [self._watch.joined(client)]
                for event in events:
                    await response.write(event)
        except ConnectionError:
            return response
        finally:
            self._watch.left(client)

    async def kill(self, request: web.Request) -> web.Response:
        job = (await object_in(request)).get("job")
        if not isinstance(job, str):
            raise BadInput(f"job: {job!r} is not a job's id")
        await asyncio.to_thread(self._controls().kill, job)
        return web.json_response({"said": f"{job} is being killed"})

    async def fault(self, request: web.Request) -> web.Response:
        told = await asyncio.to_thread(self._controls().fault, (await object_in(request)).get("fault"))
        until = "" if told["until"] is None else f" until {told['until']:.1f} s"
        said = f"{told['kind']} {told['target']} from {told['t']:.1f} s{until}"
        return web.json_response({"said": said})

    async def submit(self, request: web.Request) -> web.Response:
        body = await object_in(request)
        jobs = await asyncio.to_thread(
            self._controls().submit, {"jobs": [body.get("job")], "user": getpass.getuser()}
        )
        return web.json_response({"said": f"submitted {', '.join(jobs)}"})

    def _controls(self) -> Controls:
        """Return the current run's operations. Raises HTTPForbidden if read-only, RunFailed without a run."""
        if self._watch.read_only:
            raise web.HTTPForbidden(reason="--read-only: this page changes nothing")
        controls = self._watch.controls
        if controls is None:
            raise RunFailed("no run goes on that could be changed")
        return controls


def _part(name: str) -> str:
    return resources.files("schedbed.deploy.watch").joinpath(name).read_text(encoding="utf-8")


# Turns a run's table rows and status into events for the live page. No I/O.

ATTEMPTS_KEPT = 6000
DECISIONS_KEPT = 200
FAULTS_KEPT = 200
LAUNCHED = ("launch", "split")


ATTEMPT = places_of("attempts", "attempt", "node", "assigned", "end", "state", "locality")
DECISION = places_of("decisions", "t", "answer", "job", "task", "node", "reason")
FAULT = places_of("faults", "t", "kind", "target", "until")
KIND, STATE, WHERE = places_of("attempts", "kind", "state", "locality")
(ANSWER,) = places_of("decisions", "answer")
JOB_STATE, SUBMIT, FINISH = places_of("jobs", "state", "submit", "finish")


class RunFeed:
    """Turns the rows and statuses of runs into events for the live page, one per status with the changes.

    A page opened later begins with `snapshot`, which has a bounded size, and ignores events up to its number
    `seq`. Only one thread may use an instance at a time.
    """

    def __init__(self, *, submits: bool = False, read_only: bool = False) -> None:
        self._page = {"submits": submits and not read_only, "read_only": read_only}
        self._seq = 0
        self._results: list[Json] = []
        self._report = False
        self._clear({}, [])

    def _clear(self, about: Json, nodes: Sequence[Json]) -> None:
        self._about, self._specs = about, nodes
        self._now_s = 0.0
        self._jobs: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}
        self._condition: Json = {"held": {}, "down": {}}
        self._since: dict[str, float] = {}
        self._ended: deque[list[Any]] = deque(maxlen=ATTEMPTS_KEPT)
        self._decisions: deque[list[Any]] = deque(maxlen=DECISIONS_KEPT)
        self._faults: deque[list[Any]] = deque(maxlen=FAULTS_KEPT)
        self._tally = RunTally()
        self._new: dict[str, list[list[Any]]] = {"ended": [], "decisions": [], "faults": []}

    def begin(self, nodes: Iterable[NodeSpec], about: Mapping[str, Any]) -> Json:
        """Begin a run, and return its first event.

        `about` has policy, repeat, and the place among the command's runs (`of_policies`, number and total).
        """
        self._clear(dict(about), [asdict(node) | {"cpu_rate": node.cpu_rate} for node in nodes])
        return self._told("all", self.snapshot())

    def take_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Store new rows, with `history.COLUMNS`, for the next event of `take_status`."""
        if table == "attempts":
            for row in rows:
                self._tally.count_attempt(row)
                self._note("ended", self._ended, [row[place] for place in ATTEMPT])
        elif table == "decisions":
            for row in rows:
                if row[ANSWER] != "skip":
                    self._note("decisions", self._decisions, [row[place] for place in DECISION])
        elif table == "jobs":
            for row in rows:
                self._tally.count_job(row)
        elif table == "faults":
            for row in rows:
                self._note("faults", self._faults, [row[place] for place in FAULT])

    def _note(self, name: str, kept: deque[list[Any]], row: list[Any]) -> None:
        kept.append(row)
        new = self._new[name]
        new.append(row)
        if len(new) > 2 * ATTEMPTS_KEPT:  # No status takes the rows while the JobTracker is down.
            del new[:ATTEMPTS_KEPT]

    def take_status(self, status: Mapping[str, Any]) -> Json:
        """Return the changes since the JobTracker's last status (`scheduler.core.core`)."""
        self._now_s = float(status.get("now_s", self._now_s))
        assigned = {row[3]: row[0] for row in self._new["decisions"] if row[1] in LAUNCHED}
        running = {a: assigned.get(_task_of(a)) for node in status["nodes"] for a in node["running"]}
        self._since = {
            a: self._since.get(a, self._now_s if known_s is None else known_s)
            for a, known_s in running.items()
        }
        jobs = {row["job"]: dict(row) for row in status["jobs"]}
        nodes = {row["node"]: self._node(row) for row in status["nodes"]}
        step = {
            "now": self._now_s,
            "jobs": [row for job, row in jobs.items() if row != self._jobs.get(job)],
            "nodes": [row for node, row in nodes.items() if row != self._nodes.get(node)],
            **self._new,
        }
        # Jobs that the core has dropped are dropped here, too: a cluster may run for weeks.
        self._jobs, self._nodes = jobs, nodes
        self._new = {name: [] for name in self._new}
        return self._told("step", step)

    def take_condition(self, now_s: float, held: Mapping[str, Any], down: Mapping[str, Any]) -> Json:
        """Return the event with the faults in force by node, and the masters that are down."""
        self._now_s = max(self._now_s, now_s)
        self._condition = {"held": dict(held), "down": dict(down)}
        return self._told("condition", {"now": self._now_s, **self._condition})

    def _node(self, row: Mapping[str, Any]) -> Json:
        return {**row, "running": [[attempt, self._since[attempt]] for attempt in row["running"]]}

    def finish(self, state: str, note: str) -> Json:
        """End the run. Return an event with metrics of all the command's runs so far."""
        about = {key: self._about.get(key) for key in ("policy", "repeat")}
        self._results.append({**about, "state": state, "note": note, **self._tally.figures()})
        return self._told("results", {"results": list(self._results)})

    def over(self, has_report: bool) -> Json:
        """Return the last event, that the command has ended."""
        self._report = has_report
        return self._told("over", {"report": has_report})

    def snapshot(self) -> Json:
        """Return all data that a page needs to show the current run. Later events do not change the returned data."""
        return {
            "seq": self._seq,
            "page": self._page,
            "about": self._about,
            "specs": self._specs,
            "now": self._now_s,
            "jobs": list(self._jobs.values()),
            "nodes": list(self._nodes.values()),
            **self._condition,
            "ended": list(self._ended),
            "decisions": list(self._decisions),
            "faults": list(self._faults),
            "results": list(self._results),
        }

    def _told(self, event: str, data: Json) -> Json:
        self._seq += 1
        return {"event": event, "data": data | {"seq": self._seq}}


class RunTally:
    """Adds up a run's ended jobs and attempts, and computes the metrics of the run from the sums."""

    def __init__(self) -> None:
        self._states: dict[str, int] = {}
        self._first_s, self._last_s, self._sum_s, self._finished = None, 0.0, 0.0, 0
        self._maps = self._local = self._attempts = 0

    def count_job(self, row: Sequence[Any]) -> None:
        """Add an ended job to the sums, given its row of the table `jobs`."""
        state, submit_s, finish_s = str(row[JOB_STATE]), row[SUBMIT], row[FINISH]
        self._states[state] = self._states.get(state, 0) + 1
        self._first_s = submit_s if self._first_s is None else min(self._first_s, submit_s)
        if finish_s is not None:
            self._last_s = max(self._last_s, finish_s)
            if state == "succeeded":
                self._sum_s += finish_s - submit_s
                self._finished += 1

    def count_attempt(self, row: Sequence[Any]) -> None:
        """Add an ended attempt to the sums, given its row of the table `attempts`."""
        self._attempts += 1
        if row[KIND] == "map" and str(row[STATE]) == "succeeded":
            self._maps += 1
            self._local += row[WHERE] == "node"

    def figures(self) -> Json:
        """Return the run's metrics, None if not known yet: times in seconds, and the share of node-local maps."""
        first_s = self._first_s
        return {
            "makespan_s": None if first_s is None or not self._last_s else self._last_s - first_s,
            "completion_s": self._sum_s / self._finished if self._finished else None,
            "local": self._local / self._maps if self._maps else None,
            "attempts": self._attempts,
            "jobs": dict(self._states),
        }


def _task_of(attempt: str) -> str:
    return attempt.rpartition("_")[0]
