#!/usr/bin/env bash
# Makes sure that the tests find redis-server and haproxy, and prints which: those of
# Debian, installed if this is Debian and we are root. They start their own, on free
# ports; a service that Debian's package would start is not wanted.
set -euo pipefail

PATH=$PATH:/usr/sbin # where Debian has haproxy
packages=()
for program in redis-server haproxy; do
	command -v "$program" >/dev/null || packages+=("$program")
done

if [ ${#packages[@]} -gt 0 ] && grep -qx 'ID=debian' /etc/os-release 2>/dev/null && [ "$(id -u)" = 0 ]; then
	echo "redis: installing ${packages[*]} from Debian's packages"
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	apt-get update -q
	apt-get install -y -q --no-install-recommends "${packages[@]}"
elif [ ${#packages[@]} -gt 0 ]; then
	echo "redis: missing: ${packages[*]}. Install them to run the tests of several nodes" >&2
	exit 1
fi
redis-server --version
# Read whole: a `head` that leaves after the first line kills haproxy with SIGPIPE while it
# still writes, which pipefail makes the failure of all this.
version=$(haproxy -v)
echo "${version%%$'\n'*}"
