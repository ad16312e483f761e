package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/longwire/longwire/internal/pause"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

const (
	maxChat    = 500             // characters of a line
	storeRetry = 2 * time.Second // after which a line is sent again that the store did not take
)

// A chatLine is one event of the stream chat.
type chatLine struct {
	Time int64  `json:"t"` // ms since 1970
	User string `json:"user"`
	Text string `json:"text"`
}

// onMessage handles what pages send. The answer to a chat line is the sequence
// number of its event.
func (s *site) onMessage(ctx context.Context, m server.Message) (json.RawMessage, error) {
	var body struct {
		Chat    *string         `json:"chat"`
		Echo    json.RawMessage `json:"echo"`
		Node    bool            `json:"node"`
		DelayMS int             `json:"delayMs"`
		Refuse  *struct {
			Code    string `json:"code"`
			Reason  string `json:"reason"`
			RetryMS int    `json:"retryMs"`
		} `json:"refuse"`
	}
	if err := json.Unmarshal(m.Body, &body); err != nil {
		return nil, &server.Refusal{Code: "bad-request", Reason: err.Error()}
	}
	if err := pause.For(ctx, time.Duration(min(max(body.DelayMS, 0), 10_000))*time.Millisecond); err != nil {
		return nil, err
	}
	switch {
	case body.Chat != nil:
		return s.sayInChat(ctx, m.Identity.User, strings.TrimSpace(*body.Chat))
	case body.Echo != nil:
		return body.Echo, nil
	case body.Node:
		return json.Marshal(s.config.node)
	case body.Refuse != nil:
		retry := time.Duration(max(body.Refuse.RetryMS, 0)) * time.Millisecond
		return nil, &server.Refusal{Code: body.Refuse.Code, Reason: body.Refuse.Reason, Retry: retry}
	}
	return nil, &server.Refusal{Code: "bad-request", Reason: `the body holds none of chat, echo, node, refuse`}
}

func (s *site) sayInChat(ctx context.Context, user, text string) (json.RawMessage, error) {
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		return nil, &server.Refusal{Code: "empty", Reason: "a line of chat needs a text"}
	case n > maxChat:
		return nil, &server.Refusal{Code: "too-long", Reason: fmt.Sprintf("%d characters, at most %d", n, maxChat)}
	}
	line, err := json.Marshal(chatLine{Time: time.Now().UnixMilli(), User: user, Text: text})
	if err != nil {
		return nil, err
	}
	seq, err := s.chat.add(ctx, line)
	switch _, store := s.chat.shared(); {
	case errors.Is(err, server.ErrUncertain):
		return nil, &server.Refusal{Code: wire.NackUnknown, Reason: "the store went away before it answered"}
	case err != nil && store != nil:
		return nil, &server.Refusal{Code: wire.NackBusy, Reason: "the store does not answer", Retry: storeRetry}
	case err != nil:
		return nil, err
	}
	return strconv.AppendUint(nil, seq, 10), nil
}

// authorize opens the streams of the page, and those under test/ for tests.
func authorize(_ context.Context, _ server.Identity, stream string) error {
	if stream == "host" || stream == "chat" || strings.HasPrefix(stream, "test/") {
		return nil
	}
	return fmt.Errorf("%w: the streams here are host, chat and test/…", server.ErrForbidden)
}
