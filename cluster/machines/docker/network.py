"""Shell scripts that limit the NIC of a node in a container to the declared rate, with the command tc.

Sent packets are limited on `eth0` by an HTB class, a rate limit of tc. Received packets are redirected to an
`ifb` device and limited there in the same way. Traffic with the address of the bridge itself (heartbeats,
upload of the input) is not limited, because it is not part of the emulated cluster. Acknowledgements are not
limited either, since they would wait behind data that the node sends. tc counts whole frames, so headers are
added to the declared rate of the payload.
"""

from __future__ import annotations

HEADERS = 1.05  # The factor for headers of TCP over Ethernet, with 1400 to 1500 bytes in a packet.
# An idle NIC saves up one burst, which is sent at once. It must be small compared with the smallest transfer: 32 KiB
# are 3% of 1 MB. A packet of 64 KiB (segmentation offload) passes a smaller bucket and is charged afterwards. Long
# streams need no larger burst: data that a stopped process does not read in time wait in its socket's buffer.
BURST_BYTES = 32 * 1024
BURST_S = 0.002  # At high rates, the burst compensates for late kernel timers.
QUEUE_S = 0.25  # The length of a queue. More data are dropped, and TCP slows down.
QUEUE_MIN_BYTES = 512 * 1024
FREE = "10gbit"
ACKNOWLEDGEMENT = (
    "match ip protocol 6 0xff match u8 0x05 0x0f at 0 match u16 0x0000 0xffc0 at 2"  # TCP below 64 bytes
)
RECEIVE = "ifb0"


def shape(rate_bps: float, gateway: str) -> str:
    """Return a shell script that limits both directions of a node's NIC to `rate_bps` (bytes/s).

    The script must run once, in the node's network namespace and with the capability NET_ADMIN. Traffic from
    and to the address `gateway` is not limited.
    """
    return "\n".join(
        [
            "set -e",
            *_root("eth0", rate_bps),
            *_free("eth0", f"match ip dst {gateway}/32", ACKNOWLEDGEMENT),
            f"ip link add {RECEIVE} type ifb && ip link set {RECEIVE} up",
            *_root(RECEIVE, rate_bps),
            *_free(RECEIVE, f"match ip src {gateway}/32", ACKNOWLEDGEMENT),
            "tc qdisc add dev eth0 handle ffff: ingress",
            "tc filter add dev eth0 parent ffff: protocol all prio 1 u32 match u32 0 0 "
            f"action mirred egress redirect dev {RECEIVE}",
        ]
    )


def change(rate_bps: float) -> str:
    """Return a shell script that sets another rate (bytes/s) for a NIC limited by the script of `shape`."""
    return "\n".join(["set -e", *(_rate("change", device, rate_bps) for device in ("eth0", RECEIVE))])


def _root(device: str, rate_bps: float) -> list[str]:
    queue = max(QUEUE_MIN_BYTES, int(rate_bps * QUEUE_S))
    return [
        f"tc qdisc add dev {device} root handle 1: htb default 10",
        _rate("add", device, rate_bps),
        f"tc class add dev {device} parent 1: classid 1:20 htb rate {FREE} quantum 60000",
        f"tc qdisc add dev {device} parent 1:10 handle 10: bfifo limit {queue}b",
        f"tc qdisc add dev {device} parent 1:20 handle 20: bfifo limit 16mb",
    ]


def _free(device: str, *matches: str) -> list[str]:
    return [
        f"tc filter add dev {device} parent 1: protocol ip prio 1 u32 {match} flowid 1:20"
        for match in matches
    ]


def _rate(verb: str, device: str, rate_bps: float) -> str:
    bits, burst = int(rate_bps * HEADERS * 8), max(BURST_BYTES, int(rate_bps * BURST_S))
    return (
        f"tc class {verb} dev {device} parent 1: classid 1:10 htb "
        f"rate {bits}bit ceil {bits}bit burst {burst}b cburst {burst}b quantum 60000"
    )
