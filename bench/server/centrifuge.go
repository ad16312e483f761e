//go:build linux

package main

import (
	"context"
	"net/http"

	cf "github.com/centrifugal/centrifuge"

	"github.com/longwire/longwire/stream"
)

// stranger is the token that centrifuge refuses.
const stranger = "stranger"

// newCentrifuge serves a channel with a history like Longwire's log, whose
// subscribers have positions and can recover. The rest are the library's defaults.
func newCentrifuge(set settings) (endpoints, error) {
	node, err := cf.New(cf.Config{})
	if err != nil {
		return endpoints{}, err
	}
	node.OnConnecting(func(_ context.Context, e cf.ConnectEvent) (cf.ConnectReply, error) {
		if e.Token == stranger {
			return cf.ConnectReply{}, cf.DisconnectInvalidToken
		}
		return cf.ConnectReply{Credentials: &cf.Credentials{}}, nil
	})
	node.OnConnect(func(client *cf.Client) {
		client.OnSubscribe(func(_ cf.SubscribeEvent, answer cf.SubscribeCallback) {
			answer(cf.SubscribeReply{Options: cf.SubscribeOptions{EnableRecovery: true}}, nil)
		})
	})
	config := cf.WebsocketConfig{}
	if set.Quiet {
		config.PingPongConfig = cf.PingPongConfig{PingInterval: -1, PongTimeout: -1}
	}
	mux := http.NewServeMux()
	mux.Handle(pathOpen, cf.NewWebsocketHandler(node, config))
	return endpoints{
		handler: mux,
		publish: func(channel string, data []byte) error {
			_, err := node.Publish(channel, data, cf.WithHistory(stream.DefaultEvents, stream.DefaultAge))
			return err
		},
	}, node.Run()
}
