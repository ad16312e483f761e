#!/usr/bin/env bash
# Runs the demo on several nodes: a Redis, three times bin/longwire serve, and haproxy
# before them, which listens on the address given. Ctrl-C ends all of it, and nothing
# is left behind.
set -euo pipefail
cd "$(dirname "$0")/.."

addr=${1:-127.0.0.1:8080}

fail() {
	echo "demo-nodes: $*" >&2
	exit 1
}

PATH=$PATH:/usr/sbin # where Debian has haproxy
missing=()
for program in redis-server haproxy curl; do
	command -v "$program" >/dev/null || missing+=("$program")
done
[ ${#missing[@]} = 0 ] || fail "missing: ${missing[*]}. They are Debian's packages of the same names: apt-get install ${missing[*]}"
[ -x bin/longwire ] || fail "bin/longwire is missing: make build"

# The buttons that break a node are for this machine only.
faults=()
case $addr in
127.* | localhost:* | '[::1]:'*) faults=(-faults) ;;
esac

dir=$(mktemp -d)
nodes=()
redis=
haproxy=
# stop ends processes, if there are any, and waits for them.
stop() {
	for pid in "$@"; do
		kill "$pid" 2>/dev/null || true
	done
	wait "$@" 2>/dev/null || true
}
end() {
	trap '' INT TERM
	stop "${nodes[@]}" # first, as they drain
	stop $haproxy $redis
	rm -rf "$dir"
}
trap end EXIT
trap 'exit 0' INT TERM

# Redis takes no free port by itself: try until one is.
for _ in {1..20}; do
	port=$((20000 + RANDOM % 10000))
	: >"$dir/redis.log"
	redis-server --bind 127.0.0.1 --port "$port" --dir "$dir" --save '' --maxmemory-policy noeviction >>"$dir/redis.log" 2>&1 &
	redis=$!
	until grep -q 'Ready to accept connections' "$dir/redis.log" || ! kill -0 "$redis" 2>/dev/null; do sleep 0.05; done
	if kill -0 "$redis" 2>/dev/null; then break; fi
	redis=
done
[ -n "$redis" ] || fail "redis-server does not start: $(tail -n 3 "$dir/redis.log")"

servers=
for n in 1 2 3; do
	bin/longwire serve -addr 127.0.0.1:0 -node "$n" -store "redis://127.0.0.1:$port" "${faults[@]}" \
		-log-age 24h -session-life 5m -drain-grace 1s -drain-window 2s >"$dir/$n.url" 2>"$dir/$n.log" &
	nodes+=($!)
	until [ -s "$dir/$n.url" ]; do
		kill -0 "${nodes[-1]}" 2>/dev/null || fail "node $n does not start: $(tail -n 3 "$dir/$n.log")"
		sleep 0.05
	done
	node=$(sed 's,^http://,,; s,/$,,' "$dir/$n.url")
	servers+="	server node$n $node check"$'\n'
	echo "node $n    http://$node/ (process ${nodes[-1]})"
done
echo "redis     redis://127.0.0.1:$port (process $redis)"

cat >"$dir/haproxy.cfg" <<-END
	defaults
		mode tcp
		balance roundrobin
		option httpchk GET /ready
		http-check expect status 200
		default-server inter 250ms fall 1 rise 1
		option redispatch
		timeout connect 1s
		timeout client 1h
		timeout server 1h
	listen demo
		bind $addr
	$servers
END
haproxy -db -q -f "$dir/haproxy.cfg" &
haproxy=$!
until curl -fs -o "$dir/ready" "http://$addr/ready"; do
	kill -0 "$haproxy" 2>/dev/null || fail "haproxy does not listen on $addr"
	sleep 0.05
done

echo "Ctrl-C ends the demo; kill a node, or stop and continue Redis, and look on. It is at"
echo "http://$addr/"
# Nodes may be killed for the demonstration; without the other two there is none.
wait -n "$haproxy" "$redis" || true
fail "haproxy or Redis has ended"
