# Sourced by deploy/quickstart and tests/run: makes .venv with the project installed in place, and activates it.
# Usage: source deploy/setup.sh EXTRA, which may be "" (without a word of its own it would see the script's). Runs pip only when pyproject.toml changed since the last time.
extra="$1"
python="${PYTHON:-python3}"
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "schedbed needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
    exit 2
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv
stamp=".venv/.installed${extra:+-$extra}"
if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    echo "Installing schedbed and its dependencies into .venv ..."
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
    touch "$stamp"
fi
source .venv/bin/activate
