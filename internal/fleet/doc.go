// Package fleet holds the tests in which processes meet: servers as they are run, a
// balancer before them, the store they share, and the real client. It has no code.
package fleet
