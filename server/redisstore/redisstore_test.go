package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
)

func TestStore(t *testing.T) {
	url := redistest.Start(t).URL()
	storetest.Run(t, fresh(redisstore.Options{URL: url}))
}

var prefixes atomic.Int64

// fresh opens stores that share nothing.
func fresh(o redisstore.Options) func(server.StoreOptions) (server.Store, error) {
	return func(so server.StoreOptions) (server.Store, error) {
		o := o
		o.Prefix = fmt.Sprint("test", prefixes.Add(1))
		return redisstore.Open(o)(so)
	}
}
