package main

import (
	"context"
	"net/http"

	cf "github.com/centrifugal/centrifuge"

	"github.com/longwire/longwire/stream"
)

// newCentrifuge serves a channel with a history like Longwire's log, whose
// subscribers have positions and can recover. The rest are the library's defaults.
func newCentrifuge() (endpoint, error) {
	node, err := cf.New(cf.Config{})
	if err != nil {
		return endpoint{}, err
	}
	node.OnConnecting(func(context.Context, cf.ConnectEvent) (cf.ConnectReply, error) {
		return cf.ConnectReply{Credentials: &cf.Credentials{}}, nil
	})
	node.OnConnect(func(client *cf.Client) {
		client.OnSubscribe(func(_ cf.SubscribeEvent, answer cf.SubscribeCallback) {
			answer(cf.SubscribeReply{Options: cf.SubscribeOptions{EnableRecovery: true}}, nil)
		})
	})
	return endpoint{
		handler: cf.NewWebsocketHandler(node, cf.WebsocketConfig{CheckOrigin: func(*http.Request) bool { return true }}),
		publish: func(data []byte) error {
			_, err := node.Publish(channel, data, cf.WithHistory(stream.DefaultEvents, stream.DefaultAge))
			return err
		},
	}, node.Run()
}
