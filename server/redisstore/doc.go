// Package redisstore keeps the streams, the sessions and the answers to messages of
// several servers in Redis, so that a client can resume on any of them.
//
//	server.New(server.Options{Store: redisstore.Open(redisstore.Options{URL: "redis://localhost:6379"})})
//
// It needs Redis 7.0 or Valkey, as one server, behind Sentinel or as a Cluster. The
// servers that share a store must be given the same options for what it keeps, and
// their clocks may differ: only Redis's counts.
//
// What is kept where. Each stream is a Redis stream, whose ids are its own numbers,
// beside a hash with its epoch and head, which outlive the entries. Each node keeps a
// mirror of the streams that it follows, one for all of its connections, and is sent
// new entries by sharded pub/sub, once. A hole in their numbers, a connection that was
// made anew and a comparison now and then make it read the stream itself. So what a
// publish costs Redis depends on neither connections nor sessions: it is one script.
//
// What is noticed. Redis answers before a replica or a disk has what it wrote, so that
// a failover, a restart or a backup can bring an earlier state back. Every server that
// Redis runs as, and every history that it goes on from, is therefore a generation of
// its own: the first command of each new connection, and one every second, raises it
// in one atomic step when the server or its replication id is not the one recorded.
// All other scripts refuse a node of another generation. A stream's epoch begins with
// the generation it was minted in and does not outlive it. Entries carry a tag, and
// the one of the entry before, so that a stream that was changed within a generation
// shows as well. In each case numbering starts anew, and clients are told of a gap.
//
// What is not: Redis must not evict keys (maxmemory-policy noeviction), and a single
// deleted key with answers to messages is not missed. A write that Redis has confirmed
// and then lost is lost; only that it is lost is certain to be said.
//
// An ACL user needs +@read +@write +@pubsub +@scripting +@connection +info +time, in a
// Cluster +cluster +command as well, ~{longwire:* and &{longwire:*.
//
// Options.IdleSessions does not count here: sessions end by their life alone.
//
// The client is go-redis: its hook for new connections is where the generation has to
// be compared, and it knows Sentinel, Cluster, TLS and users. In bench/redis rueidis
// took 0.94, 0.80 and 0.95 of its time for an append, from 1, 8 and 64 publishers on a
// busy machine of two cores: too little to give that up.
package redisstore
