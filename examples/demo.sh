#!/usr/bin/env bash
# Judges an incident-shaped data set, then a good one. Fails where the check does not say what it must.
set -euo pipefail

bin=${BIN:-.venv/bin}
folder=demo-data

# check EXIT RULE WORDS…: runs the command and wants that exit code, and that rule among the failures.
check() {
  local wanted=$1 rule=$2 code=0
  shift 2
  printf '\n$ dflash-guard check %s\n' "$*"
  "$bin/dflash-guard" check "$@" | tee "$folder/last.txt" || code=${PIPESTATUS[0]}
  printf '[exit %s]\n' "$code"
  if [ "$code" != "$wanted" ]; then
    echo "demo: exit $code, wanted $wanted" >&2
    exit 1
  fi
  if [ -n "$rule" ] && ! grep -q "$rule" "$folder/last.txt"; then
    echo "demo: $rule was not reported" >&2
    exit 1
  fi
}

rm -rf "$folder"
"$bin/python" examples/incident.py "$folder"

cat <<'END'

A team trained a drafter on 913,786 samples. 87 % of them had the same response: an empty think block and "OK.".
Every loader was happy. Here are 4,000 rows of that shape.
END
check 1 few-loss-tokens "$folder/bad" --stage tokenized --max-failures 2

cat <<'END'

few-loss-tokens and empty-thinking name the stubs; missing-id and unknown-source say that nobody could have traced
them. Exit code 1: a stage that runs behind the check does not start.

These are the prompts that the rows were made from. Nothing says where they came from:
END
check 1 unknown-source "$folder/raw.jsonl" --stage prompts --max-failures 2

cat <<'END'

Their old responses are only warnings (stub-response), since they are about to be generated anew.
With rows as they should be:
END
check 0 PASS "$folder/good" --stage tokenized

printf '\nThe data is in %s/, what the check wrote beside it in %s/*/__guard__/.\n' "$folder" "$folder"
