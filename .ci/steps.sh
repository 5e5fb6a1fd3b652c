# Functions of `.ci/run`.

STEPS_FOLDER=$(mktemp -d)
STEPS_BEGAN=$(date +%s)
STEPS_END=$((STEPS_BEGAN + 85 * 60)) # the summary must not come too late
export STEPS_FOLDER STEPS_BEGAN STEPS_END
trap 'rm -rf "$STEPS_FOLDER"' EXIT

python=$(python3 -c 'import sys; print(sys.executable)') # pyenv may take another one later
failed=0

finish() {
    "$python" .ci/step.py summary || failed=1
    exit "$failed"
}

# step LIMIT_S NAME COMMAND...: runs a command, or an exported function. LIMIT_S is 3 to
# 4 times its usual time.
step() {
    local limit_s=$1 name=$2
    shift 2
    if [[ $(type -t "$1") == function ]]; then
        set -- bash -uo pipefail -c '"$@"' bash "$@"
    fi
    "$python" .ci/step.py run "$limit_s" "$name" "$@" || failed=$?
    ((failed < 128)) || finish
}

# beside NAME FUNCTION: calls a function whose steps take one core, or wait for packages,
# while others go on. join NAME: waits until it is done, and prints its output.
declare -A beside
beside() {
    (
        failed=0
        "$2"
        exit "$failed"
    ) >"$STEPS_FOLDER/$1.txt" 2>&1 &
    beside[$1]=$!
}
join() {
    wait "${beside[$1]}" || failed=$?
    cat "$STEPS_FOLDER/$1.txt"
    ((failed < 128)) || finish
}

# installed NAME: the program of a package of that name, from Debian if it is not here.
# Steps beside each other take turns: apt-get does not wait for another one.
installed() {
    command -v "$1" >/dev/null && return
    local as_root=()
    [[ $EUID == 0 ]] || as_root=(sudo)
    (
        flock 9
        "${as_root[@]}" apt-get update --quiet=2 &&
            "${as_root[@]}" apt-get install --quiet=2 --yes "$1"
    ) 9>"$STEPS_FOLDER/apt.lock"
}
shellcheck_run() {
    installed shellcheck && shellcheck --severity=warning --external-sources .ci/run &&
        echo "no findings"
}
compose_config() {
    installed docker-compose && docker-compose config --quiet &&
        docker-compose --profile pipeline config --quiet &&
        echo "docker-compose.yml is valid"
}
chromium_version() { installed chromium && chromium --version; }
instructions() { installed valgrind && "$bin/python" -m bench.run --instructions --check; }

# The other versions of Python that kohort is for, by pyenv where that is installed.
environment() {
    "python$1" -m venv "$STEPS_FOLDER/python$1" &&
        "$STEPS_FOLDER/python$1/bin/pip" install --quiet "$(echo "$STEPS_FOLDER"/wheel/*.whl)[test]" &&
        "$STEPS_FOLDER/python$1/bin/python" -V
}
# environments VERSION...: one for each, made beside each other, of one wheel.
environments() {
    local version making outcome=0 all=()
    "$bin/pip" wheel --quiet --no-deps --wheel-dir "$STEPS_FOLDER/wheel" . || return
    for version; do
        environment "$version" &
        all+=($!)
    done
    for making in "${all[@]}"; do
        wait "$making" || outcome=1
    done
    return "$outcome"
}

# with_jitter BIN: answers come late at random, with seeds 1 and 3, which finds flaky tests.
# They wait for one another: several at a time.
with_jitter() {
    local jitter
    for jitter in 1:5 3:50; do
        KOHORT_JITTER=$jitter "$1/pytest" -q -n 4 --dist worksteal tests/client \
            tests/groups -m "not hypothesis and not interop and not long" || return
    done
}
export -f installed shellcheck_run compose_config chromium_version instructions \
    environment environments with_jitter
