package redisstore

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// Scripts are refused as a whole by a replica, and without memory, but for those that
// must work then and write little.
const (
	refused = "#!lua\n"
	allowed = "#!lua flags=allow-oom\n"
)

var (
	scriptConnect    = script(allowed, "connect")
	scriptProbe      = script(refused, "probe")
	scriptRead       = script(allowed, "read")
	scriptAppend     = script(refused, "append")
	scriptAppendUser = script(refused, "append_user")
	scriptKnows      = script(allowed, "knows")
	scriptAttach     = script(refused, "attach")
	scriptRenew      = script(refused, "renew")
	scriptDetach     = script(allowed, "detach")
	scriptAdmit      = script(refused, "admit")
	scriptSettle     = script(allowed, "settle")
)

// loaded are the scripts that are loaded when a store is opened.
var loaded = []*redis.Script{
	scriptConnect, scriptRead, scriptAppend, scriptAppendUser, scriptKnows, scriptAttach, scriptRenew, scriptDetach,
	scriptAdmit, scriptSettle,
}

func script(flags, name string) *redis.Script {
	source := flags
	for _, file := range []string{"common", name} {
		text, err := sources.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		source += string(text)
	}
	return redis.NewScript(source)
}
