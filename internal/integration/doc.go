// Package integration holds the tests in which the real client and the real
// server meet over a network in memory, in virtual time. It has no code.
package integration
