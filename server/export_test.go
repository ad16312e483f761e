package server

// EpochOf returns the epoch of a named stream of a server that keeps it in memory.
func (s *Server) EpochOf(stream string) string {
	s.memory.streams.mu.RLock()
	defer s.memory.streams.mu.RUnlock()
	return s.memory.streams.all[stream].log.Epoch()
}

// OpenMemory opens the store of a server without Options.Store.
func OpenMemory(o StoreOptions) (Store, error) { return newMemoryStore(o), nil }
