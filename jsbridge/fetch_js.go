package jsbridge

import (
	"context"
	"errors"

	"github.com/hack-pad/safejs"
)

// Response is the head of an answer to Probe.
type Response struct {
	// Status is the HTTP status; 0 where Redirected.
	Status int
	// Redirected: the answer was a redirect, of which a page learns nothing more.
	Redirected bool
	// Header returns a header by name, "" if it is not there, the name is not one,
	// or a server of another origin does not expose it.
	Header func(name string) string
}

// Probe asks url for an answer and returns its head: a GET with the page's
// credentials, past every cache, following no redirect. The body is not read; the
// request is cancelled when the head is there, or ctx ends.
//
// Every status is an answer. No answer is an error: ctx's cause when it ended,
// else an *Error of which a browser says no more than "TypeError: Failed to
// fetch", also where it only hid the answer (CORS, CSP). Errors do not repeat the
// user, query and fragment of the URL. Probe waits for the event loop: it must not
// be called within a callback.
func Probe(ctx context.Context, url string) (Response, error) {
	r, err := probe(ctx, url)
	if err != nil {
		return Response{}, urlError("probe", url, thrown(err))
	}
	return r, nil
}

func probe(ctx context.Context, url string) (Response, error) {
	fetch, ok := global("fetch")
	if !ok {
		return Response{}, errors.New("there is no fetch here")
	}
	constructor, ok := global("AbortController")
	if !ok {
		return Response{}, errors.New("there is no AbortController here")
	}
	controller, err := constructor.New()
	if err != nil {
		return Response{}, err
	}
	//nolint:errcheck // it has this method; without the call the body is read into the void
	defer controller.Call("abort")
	signal, err := Get(controller, "signal")
	if err != nil {
		return Response{}, err
	}
	promise, err := fetch.Invoke(url, map[string]any{
		"credentials": "include",
		"cache":       "no-store",
		"redirect":    "manual",
		"signal":      signal,
	})
	if err != nil {
		return Response{}, err
	}
	response, err := Await(ctx, promise)
	if err != nil {
		return Response{}, err
	}
	return head(response)
}

// head reads what there is to know of a response.
func head(response safejs.Value) (Response, error) {
	status, err := numberOf(response, "status")
	if err != nil {
		return Response{}, err
	}
	headers, err := Get(response, "headers")
	if err != nil {
		return Response{}, err
	}
	return Response{
		Status:     status,
		Redirected: textOf(response, "type") == "opaqueredirect",
		Header: func(name string) string {
			value, err := headers.Call("get", name)
			if err != nil || value.IsNull() {
				return ""
			}
			text, err := value.String()
			if err != nil {
				return ""
			}
			return text
		},
	}, nil
}
