package jsbridge

import (
	"errors"

	"github.com/hack-pad/safejs"
)

// Random fills buf with random bytes that nobody can predict, of the browser's
// crypto.getRandomValues (crypto/rand would weigh on the wasm build).
func Random(buf []byte) error {
	crypto, err := Get(safejs.Global(), "crypto")
	if err != nil {
		return err
	}
	array, ok := global("Uint8Array")
	if !ok {
		return errors.New("jsbridge: there is no Uint8Array here")
	}
	for len(buf) > 0 {
		part := buf[:min(len(buf), maxRandom)]
		bytes, err := array.New(len(part))
		if err != nil {
			return failed("get random bytes", err)
		}
		if _, err = crypto.Call("getRandomValues", bytes); err != nil {
			return failed("get random bytes", err)
		}
		if _, err = safejs.CopyBytesToGo(part, bytes); err != nil {
			return failed("get random bytes", err)
		}
		buf = buf[len(part):]
	}
	return nil
}

// maxRandom is how many bytes getRandomValues gives in one call.
const maxRandom = 65536
