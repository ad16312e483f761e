package application

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/longwire/longwire/server"
)

// What the documents leave to the application that they show a part of.
var (
	ctx         context.Context
	lw          *server.Server
	mux         *http.ServeMux
	data        []byte
	ticketKey   []byte
	certificate string
	key         string
	session     string
	sharedStore func(server.StoreOptions) (server.Store, error)
	rooms       map[string]room
	shop        orders
)

type room interface {
	State(ctx context.Context) (state json.RawMessage, seq uint64, err error)
}

type orders interface {
	IsClosed() bool
	Order(ctx context.Context, user string, count int) (id string, err error)
}

type login struct {
	User    string
	Expires time.Time
}

func loginOf(*http.Request) (server.Identity, error)                  { panic("the application's") }
func sessionOf(*http.Request) (login, error)                          { panic("the application's") }
func stateOf(context.Context, string) (server.Snapshot, error)        { panic("the application's") }
func handle(context.Context, server.Message) (json.RawMessage, error) { panic("the application's") }
func mayRead(server.Identity, string) error                           { panic("the application's") }
func show(json.RawMessage)                                            { panic("the application's") }
func apply(json.RawMessage)                                           { panic("the application's") }
