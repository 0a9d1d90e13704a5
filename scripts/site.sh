#!/bin/sh
# Builds the site (mkdocs.yml) into build/site and checks every link within it. MkDocs comes from the package registry into
# build/site-tools, unless PYTHON names a Python that has it; once it is there, no network is needed. Where it is not and the
# registry is out of reach, nothing can be checked: the exit status is 77, by which ctest says that the test was skipped.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

# skip REASON
skip() {
  echo "the site was not checked: $1"
  exit 77
}

if [ -z "${PYTHON-}" ]; then
  tools=build/site-tools
  if ! [ -x $tools/bin/pip ] && ! python3 -m venv $tools; then
    rm -rf $tools
    skip "python3 makes no virtual environment (on Debian, install python3-venv)"
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! $tools/bin/pip install -q --disable-pip-version-check --retries 2 -r docs/requirements.txt >"$log" 2>&1; then
    cat "$log"
    # A version that the registry does not have is a mistake in docs/requirements.txt, and a failure.
    if grep -qE 'from versions: none|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError' "$log"; then
      skip "MkDocs is not in $tools, and the package registry is out of reach"
    fi
    exit 1
  fi
  PYTHON=$tools/bin/python
fi
export NO_MKDOCS_2_WARNING=1
site=${FA2_SITE_DIR:-build/site}
"$PYTHON" -m mkdocs build --strict --quiet --site-dir "$root/$site"
"$PYTHON" scripts/check-site.py "$site"
