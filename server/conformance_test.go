package server_test

import (
	"testing"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
)

func TestMemoryConforms(t *testing.T) { storetest.Run(t, server.OpenMemory) }
