#!/usr/bin/env bash
# Makes sure that the tests find a Chromium and a Firefox, and prints which.
#
# CHROMIUM and FIREFOX name the programs to take. Without them: those of Debian,
# installed if this is Debian and we are root; else the ones that Playwright
# downloads for itself. playwright.config.js looks in the same places.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "browsers: $*" >&2
	exit 1
}

chromium=${CHROMIUM:-/usr/bin/chromium}
firefox=${FIREFOX:-/usr/bin/firefox-esr}
packages=()
downloads=()
if [ -n "${CHROMIUM:-}" ]; then
	[ -x "$chromium" ] || fail "CHROMIUM=$chromium is not a program"
elif [ ! -x "$chromium" ]; then
	packages+=(chromium) downloads+=(chromium)
fi
if [ -n "${FIREFOX:-}" ]; then
	[ -x "$firefox" ] || fail "FIREFOX=$firefox is not a program"
elif [ ! -x "$firefox" ]; then
	packages+=(firefox-esr) downloads+=(firefox)
fi

if [ ${#packages[@]} -gt 0 ] && grep -qx 'ID=debian' /etc/os-release 2>/dev/null && [ "$(id -u)" = 0 ]; then
	echo "browsers: installing ${packages[*]} from Debian's packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	apt-get install -y -q --no-install-recommends "${packages[@]}"
elif [ ${#downloads[@]} -gt 0 ]; then
	echo "browsers: not root on Debian, so taking Playwright's own ${downloads[*]}"
	(cd playwright && npx --no-install playwright install "${downloads[@]}") ||
		fail "that failed: install chromium and firefox-esr, or set CHROMIUM and FIREFOX to the programs"
	own() { (cd playwright && node -p "require('@playwright/test').$1.executablePath()"); }
	[ -x "$chromium" ] || chromium=$(own chromium)
	[ -x "$firefox" ] || firefox=$(own firefox)
fi

# wasmbrowsertest looks for a program of this name before any other.
mkdir -p bin
printf '#!/bin/sh\nexec "%s" "$@"\n' "$chromium" >bin/headless-shell
chmod +x bin/headless-shell

# Debian's chromium is a script that also complains on stderr. The firefox of
# another month may be too new for the pinned Playwright: the version is the clue.
for program in "$chromium" "$firefox"; do
	version=$("$program" --version 2>/dev/null) || fail "$program does not run"
	echo "browsers: $version ($program)"
done
