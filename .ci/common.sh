# Sourced by the steps, each of which runs in a copy of the tracked files; their other output goes to $CI_WORK.
set -euo pipefail
# No bytecode at installation: most modules are never imported.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_COMPILE=0
if [ -z "${DPERM_DATA:-}" ] && [ -d "$CI_ROOT/../shared/data" ]; then
    export DPERM_DATA="$CI_ROOT/../shared/data"
fi
# Use ccache if it is installed: the package is built several times, in several copies.
export PATH=/usr/lib/ccache:$PATH CCACHE_BASEDIR=$PWD

part() { printf -- '-- %s (%ss)\n' "$*" "$SECONDS"; }

# Install ccache, and a compiler and an emulator for ARM, where they are missing (Debian and its derivatives).
need_compilers() {
    command -v ccache >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null &&
        command -v qemu-aarch64 >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    (apt-get update && apt-get install -y --no-install-recommends ccache gcc-aarch64-linux-gnu \
        libc6-dev-arm64-cross qemu-user) >"$CI_WORK/apt.log" 2>&1 || tail -3 "$CI_WORK/apt.log"
}

# A command of the README verbatim: the code block after the comment <!-- NAME -->.
readme_command() { sed -n "/^<!-- $1 -->/,/^\`\`\`\$/p" README.md | sed '1,2d;$d'; }

# The environment that the README's test command creates, with the package and the requirements of its tests.
python=$CI_WORK/2-tests/.venv/bin/python
need_package() {
    part "build the package"
    need_compilers
    python3 -m venv .venv
    "$python" -m pip install '.[test]'
}

# The test files that use a marker, also by RELATIONS_ONE_SLOW; the others need not be collected.
marked() { grep -rlE "mark\.$1\b|ONE_${1^^}\b" tests --include='test_*.py'; }

# Install tools, in a separate environment for each step: need_tools PACKAGE...
here=$PWD tools=$PWD.tools/bin
need_tools() {
    [ -x "$tools/python" ] || python3 -m venv "$here.tools"
    "$tools/python" -m pip install "$@"
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
# Run a function in the background; `finish` waits for it, prints its output and fails if it failed.
declare -A running
background() { ("$@") >"$CI_WORK/${*//\//-}.log" 2>&1 & running[$*]=$!; }
finish() {
    local status=0
    wait "${running[$*]}" || status=$?
    part "$*" && cat "$CI_WORK/${*//\//-}.log"
    return "$status"
}
