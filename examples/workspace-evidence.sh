#!/bin/sh
# Workspace evidence: the board accepts "done" only if the claimed files exist and the checks pass. The first worker claims a file
# that it did not write, and the board rejects the claim; the second one writes it. Needs no server and no database.
set -eu
# In a clone, npm ci has installed the program here.
PATH=$PATH:$(cd "$(dirname "$0")/.." && pwd)/node_modules/.bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

bellwether task add 'Write a haiku' --instruction 'Write haiku.txt' --verify 'test -s haiku.txt' > /dev/null
bellwether task dispatch --command 'cat > /dev/null; echo "{\"files\":[\"haiku.txt\"]}"' || echo 'rejected: the file does not exist'
bellwether task retry T-1 > /dev/null
bellwether task dispatch --command 'cat > /dev/null; echo "old pond" > haiku.txt; echo "{\"files\":[\"haiku.txt\"]}"'
bellwether task list --all
