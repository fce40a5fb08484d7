# Sourced by the steps, which run in $CI_WORK/tree, a copy of the tracked files; what they make beside is in $CI_WORK.
set -euo pipefail
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
if [ -z "${DPERM_DATA:-}" ] && [ -d "$CI_ROOT/../shared/data" ]; then
    export DPERM_DATA="$CI_ROOT/../shared/data"
fi
# A compiler cache is used where there is one.
if [ -d /usr/lib/ccache ]; then export PATH=/usr/lib/ccache:$PATH; fi

part() { printf -- '-- %s (%ss)\n' "$*" "$SECONDS"; }

# A command of the README as it stands: the block of code after the comment <!-- NAME -->.
readme_command() { sed -n "/^<!-- $1 -->/,/^\`\`\`\$/p" README.md | sed '1,2d;$d'; }

# The environment of the README, with the package and what its tests need.
python=$CI_WORK/tree/.venv/bin/python
need_package() {
    [ -x "$python" ] && (cd / && "$python" -c 'import dperm, pytest, pandas' 2>/dev/null) && return
    part "build the package"
    python3 -m venv .venv
    "$python" -m pip install '.[test]'
}

# Tools beside the package, in an environment of their own: need_tools PACKAGE...
tools=$CI_WORK/tools/bin
need_tools() {
    [ -x "$tools/python" ] || python3 -m venv "$CI_WORK/tools"
    "$tools/python" -m pip install "$@"
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
# Run a function beside what follows; `finish` waits, prints what it said and fails if it failed.
beside() { ("$1") >"$CI_WORK/$1.log" 2>&1 & eval "pid_$1=$!"; }
finish() {
    local pid="pid_$1" status=0
    wait "${!pid}" || status=$?
    part "$1" && cat "$CI_WORK/$1.log"
    return "$status"
}
