#!/bin/bash
# Runs a command as one of several hosts that train together:
#
#     HOSTS="host0:2222 host1:2222" INDEX=0 ./host.sh albert-tf pretrain --strategy multi_worker …
#
# HOSTS has the addresses of all hosts, the same everywhere; INDEX is the place of this one, from 0.
workers=$(printf '"%s", ' $HOSTS)
export TF_CONFIG="{\"cluster\": {\"worker\": [${workers%, }]}, \"task\": {\"type\": \"worker\", \"index\": $INDEX}}"
exec "$@"
