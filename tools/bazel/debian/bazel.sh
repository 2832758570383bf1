#!/usr/bin/env bash
# Bazel as Debian 12 packages it (4.2.3), without a network: the rules that Bazel would download come from Debian's
# packages and from the folders beside this file. `make bazel` uses it; an installed Bazel 7 needs none of it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=$(cd "$here/../../.." && pwd)/.venv/bin  # the interpreter that has the requirements
share=/usr/share/bazel

for needed in /usr/bin/bazel-4 $share/rules/java $share/rules/proto $share/tools/skylib $share/tools/platforms; do
    [[ -e $needed ]] && continue
    echo "$needed is missing: apt-get install --no-install-recommends $(paste -sd' ' "$here/packages.txt")" >&2
    exit 1
done
