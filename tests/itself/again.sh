#!/bin/bash
# again.sh - which plays of the transcripts and stories of wire/ are repeated:
# see wire/again.py.
cd "$(dirname "$0")" || exit 1
if ! command -v python3 >/dev/null 2>&1; then
    echo 'skipped: no python3 (apt-get install python3)'
    echo 'again: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=../wire exec python3 plays.py
