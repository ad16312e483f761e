package server

// EpochOf returns the epoch of a named stream.
func (s *Server) EpochOf(stream string) string {
	s.topics.mu.RLock()
	defer s.topics.mu.RUnlock()
	return s.topics.all[stream].log.Epoch()
}
