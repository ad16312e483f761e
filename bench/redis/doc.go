// Package redis compares Redis clients by the call that server/redisstore makes for
// each event: the append script. Run it with
//
//	go test -bench . -count 5
package redis
