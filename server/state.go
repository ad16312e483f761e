package server

import (
	"errors"
	"fmt"
)

// Seal ends publishing: from here on every Publish… fails with ErrSealed.
// Everything else goes on: what was published before is still delivered. It can be
// called twice.
func (s *Server) Seal() {
	s.sealed.Store(true)
	if s.memory != nil {
		s.memory.seal() // and so a call that is on its way
	}
}

// SaveState writes the state of a server without connections to Options.StateFile,
// for the New that follows: see there. It closes the server first if that was not
// done, as a connection or a message that came after it would not be in the file.
// So it waits for what OnMessage and the other functions still do, their contexts
// ended: let them finish before. A message whose OnMessage is cut short so is
// answered "unknown" when it is resent, and is not run again.
//
// It is refused, and nothing has changed, while connections are open, and without
// an Options.StateFile. Any other error is one of writing the file: then there is
// none, and the call can be repeated. The file is complete and on the disk when it
// returns nil, and was never there in part.
func (s *Server) SaveState() error {
	m := s.memory
	if m == nil || m.state == nil {
		return errors.New("server: save state: Options.StateFile is not set")
	}
	s.mu.Lock()
	open := len(s.conns)
	s.closed = s.closed || open == 0
	s.mu.Unlock()
	if open > 0 {
		return fmt.Errorf("server: save state: %d connections are open: close them first", open)
	}
	if err := s.Close(); err != nil {
		return err
	}
	s.Seal()
	m.state.saving.Lock()
	defer m.state.saving.Unlock()
	if err := writeFile(m.state.path, m.writeState); err != nil {
		return fmt.Errorf("server: save state: %w", err)
	}
	return nil
}
