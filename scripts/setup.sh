#!/bin/sh
# Installs what fa2 is built with on Debian 12: compilers, LLVM and MLIR 22 (from
# bookworm-security), small libraries. Does nothing when all of it is there. Other systems are left as they are: their
# packages have other names or versions, and Debian's archive is none of theirs.
set -eu
os_release=${FA2_OS_RELEASE:-/etc/os-release} # for the test

packages="
  build-essential cmake ninja-build ccache mold git ca-certificates python3 python3-venv python3-numpy
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  libzstd-dev zlib1g-dev libedit-dev libcurl4-openssl-dev
  nlohmann-json3-dev libcli11-dev libfmt-dev libcjson-dev libmimalloc-dev libgtest-dev
  clang-14 clang-format-14 clang-tidy-14"

missing=""
for package in $packages; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed"; then
    missing="$missing $package"
  fi
done
[ -z "$missing" ] && exit 0

ID=unknown VERSION_ID= PRETTY_NAME=
[ -r "$os_release" ] && . "$os_release"
if [ "$ID $VERSION_ID" != "debian 12" ]; then
  echo "setup: this is ${PRETTY_NAME:-$ID $VERSION_ID}; packages are installed on Debian 12 only, and nothing was changed." >&2
  echo "setup: fa2 needs LLVM and MLIR 22 with their development files (apt.llvm.org has them for Ubuntu), and what Debian" >&2
  echo "setup: calls$(printf '%s' "$missing" | sed -E 's/ [a-z-]*-22-[a-z]+| libmlir-22-dev//g')." >&2
  echo "setup: With these in place: cmake --preset release && cmake --build --preset release" >&2
  exit 1
fi

if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif command -v sudo >/dev/null; then
  as_root="sudo"
else
  echo "setup: these packages are missing, and there is neither root nor sudo to install them:$missing" >&2
  exit 1
fi

echo "setup: installing$missing"
$as_root apt-get update -q
if ! apt-cache show llvm-22-dev >/dev/null 2>&1; then
  # An installation without the security archive.
  echo "deb http://deb.debian.org/debian-security bookworm-security main" |
    $as_root tee /etc/apt/sources.list.d/fa2-bookworm-security.list >/dev/null
  $as_root apt-get update -q
fi
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
