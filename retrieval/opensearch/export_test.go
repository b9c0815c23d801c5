package opensearch

import "sidenote/retrieval/engine"

// Connection returns the connection of a Server.
func (s *Server) Connection() engine.Connection {
	c := s.client.conn
	c.Namespace = s.namespace
	return c
}
