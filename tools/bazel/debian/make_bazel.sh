#!/usr/bin/env bash
# Builds everything and runs the small tests with the Bazel of Debian 12 (4.2.3), without a network: the rules that
# Bazel would download come from Debian's packages and from the folders beside this file. Only `make bazel` uses it.
set -euo pipefail
cd "$(dirname "$0")/../../.."

debian=/usr/share/bazel
ours=$PWD/tools/bazel/debian

for needed in /usr/bin/bazel-4 $debian/rules/java $debian/rules/proto $debian/tools/skylib $debian/tools/platforms; do
    if [[ ! -e $needed ]]; then
        echo "make bazel: no $needed: apt-get install $(paste -sd' ' "$ours/packages.txt")" >&2
        exit 1
    fi
done

export PATH=$PWD/.venv/bin:$PATH  # Bazel takes the python3 it finds first: the one that has the requirements

# No rc files: ours has options of Bazel 7, and what Debian's say is repeated here. The server's memory is bounded.
startup=(
    --ignore_all_rc_files
    --install_base=$debian
    --trust_install_base
    --host_jvm_args=-Xmx1g
    --max_idle_secs=60
)
options=(
    --override_repository=bazel_skylib=$debian/tools/skylib
    --override_repository=platforms=$debian/tools/platforms
    --override_repository=remote_coverage_tools="$ours/remote_coverage_tools"
    --override_repository=rules_cc="$ours/rules_cc"
    --override_repository=rules_java=$debian/rules/java
    --override_repository=rules_proto=$debian/rules/proto
    --incompatible_default_to_explicit_init_py
    --host_javabase=@local_jdk//:jdk
    --symlink_prefix=/  # no bazel-… links in the repository
    --noshow_progress
    --test_size_filters=small  # the quick ones
    --test_timeout=300         # also on a busy machine
    --test_output=errors
    --test_env=PATH
    --test_env=TF_CPP_MIN_LOG_LEVEL=2
    --test_env=ALBERT_TF_SHARED=/nonexistent  # tests that need data from beside the repository skip
)

bazel() { /usr/bin/bazel-4 "${startup[@]}" "$@"; }
trap 'bazel shutdown' EXIT

bazel build "${options[@]}" //...
bazel test "${options[@]}" //...
