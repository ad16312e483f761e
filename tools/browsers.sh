#!/usr/bin/env bash
# Makes sure that the tests find a Chromium and a Firefox, and prints which.
#
# CHROMIUM and FIREFOX name the programs to take. Without them: those of Debian,
# installed if this is Debian and we are root; else the ones that Playwright
# downloads for itself.
set -euo pipefail
cd "$(dirname "$0")/.."

chromium=${CHROMIUM:-/usr/bin/chromium}
firefox=${FIREFOX:-/usr/bin/firefox-esr}

# version PROGRAM: its last line that holds a version. Debian's chromium is a
# script that talks on stderr.
version() { "$1" --version 2>/dev/null | grep -E '[0-9]+\.[0-9]' | tail -n 1; }

missing=()
[ -x "$chromium" ] || missing+=(chromium)
[ -x "$firefox" ] || missing+=(firefox-esr)

if [ ${#missing[@]} -gt 0 ] && [ -z "${CHROMIUM:-}${FIREFOX:-}" ] &&
	grep -qx 'ID=debian' /etc/os-release 2>/dev/null && [ "$(id -u)" = 0 ]; then
	echo "browsers: installing ${missing[*]} from Debian's packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	apt-get install -y -q --no-install-recommends "${missing[@]}"
	missing=()
fi

# Playwright's own: its config falls back to them where Debian's are missing.
if [ ${#missing[@]} -gt 0 ]; then
	echo "browsers: no ${missing[*]} in place, and not root on Debian: taking Playwright's own"
	if ! (cd playwright && npx --no-install playwright install chromium firefox); then
		echo "browsers: that failed. Set CHROMIUM and FIREFOX to the programs, or install chromium and firefox-esr." >&2
		exit 1
	fi
fi
[ -x "$chromium" ] || chromium=$(cd playwright && node -p "require('@playwright/test').chromium.executablePath()")
[ -x "$firefox" ] || firefox=$(cd playwright && node -p "require('@playwright/test').firefox.executablePath()")

# wasmbrowsertest looks for a program of this name before any other.
mkdir -p bin
printf '#!/bin/sh\nexec "%s" "$@"\n' "$chromium" >bin/headless-shell
chmod +x bin/headless-shell

echo "browsers: $(version "$chromium") ($chromium)"
echo "browsers: $(version "$firefox") ($firefox)"
