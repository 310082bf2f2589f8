# Sourced by deploy/quickstart and tests/run: makes .venv with the project installed in place, and activates it.
# Usage: source deploy/setup.sh EXTRA, which may be "" (without a word of its own it would see the script's). Runs pip only
# when pyproject.toml or deploy/constraints*.txt changed since the last time. What only tests need comes with an EXTRA;
# what the extra `fast` has (numba) is always there.
extra="$1"
python="${PYTHON:-python3}"
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "schedbed needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
    exit 2
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv
stamp=".venv/.installed${extra:+-$extra}"
locked=(deploy/constraints.txt)
[ -z "$extra" ] || locked+=(deploy/constraints-dev.txt)
if [ ! -f "$stamp" ] || [ -n "$(find pyproject.toml "${locked[@]}" -newer "$stamp")" ]; then
    echo "Installing schedbed and its dependencies into .venv ..."
    pip=(.venv/bin/python -m pip --quiet --disable-pip-version-check)
    # uv takes seconds where pip takes a minute. pip installs if uv cannot be had, or does not find the packages.
    "${pip[@]}" install --no-compile --require-hashes --requirement=deploy/constraints-uv.txt 2>/dev/null || true
    index="${PIP_INDEX_URL:-$("${pip[@]}" config get global.index-url 2>/dev/null || true)}"
    install() {
        UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}" \
            .venv/bin/uv pip install --quiet --no-cache --python .venv/bin/python "$@" 2>/dev/null ||
            "${pip[@]}" install --no-compile "$@"
    }
    if .venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
        # The versions that the tests have seen, each file checked. No folder has a checksum, so the project comes after.
        install --require-hashes "${locked[@]/#/--requirement=}"
        # On all cores, and without what we never import.
        unused='/ray/(rllib|tune|train|serve|data|air|llm)/|/(pip|setuptools|fontTools|pygments/lexers)/|/tests?/'
        .venv/bin/python -m compileall -qq -j 0 -x "$unused" .venv/lib || true
        "${pip[@]}" install --no-deps --no-build-isolation --editable .
    else
        echo "deploy/constraints.txt is for Python 3.11: installing the newest versions that pyproject.toml allows" >&2
        install --editable ".[fast${extra:+,$extra}]"
    fi
    touch "$stamp"
fi
source .venv/bin/activate
