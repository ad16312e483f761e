package redisstore_test

import (
	"log"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
)

// Nodes that are given the same Redis, and the same options of what to keep, have one
// set of streams, sessions and answers.
func Example() {
	lw, err := server.New(server.Options{
		Store: redisstore.Open(redisstore.Options{URL: "redis://longwire:secret@127.0.0.1:6379"}),
	})
	if err != nil {
		log.Fatal(err) // Redis is not there, too old, or refuses what is needed
	}
	defer lw.Close() //nolint:errcheck // the program ends
}
