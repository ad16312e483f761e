package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// sighting is the first event that a client has got since a mark.
type sighting struct {
	Client int     `json:"client"`
	Mark   int64   `json:"mark"`
	At     float64 `json:"at"` // ms since 1970
}

// runClients is the process of Longwire's native clients: URL, number. It says and
// takes what clients.js does.
func runClients(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("clients: URL and number, not %q", args)
	}
	url := strings.Replace(args[0], "http", "ws", 1) + "/ws"
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var marks atomic.Int64
	var mu sync.Mutex
	say := json.NewEncoder(os.Stdout)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range number {
		client, err := reconnect.NewClient(reconnect.Options{
			URL: func(context.Context) (string, error) { return url, nil },
		})
		if err != nil {
			return err
		}
		said := int64(-1)
		event := func(reconnect.EventInfo) {
			mark := marks.Load()
			if said == mark {
				return
			}
			said = mark
			mu.Lock()
			defer mu.Unlock()
			_ = say.Encode(sighting{i, mark, float64(time.Now().UnixMicro()) / 1000}) // who is told is gone if it fails
		}
		if _, err = client.Subscribe(channel, nil, reconnect.Handler{Event: event}); err != nil {
			return err
		}
		go client.Run(ctx) //nolint:errcheck // ends with the process
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		marks.Add(1)
	}
	return lines.Err()
}
