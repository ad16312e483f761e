// Package docs holds the tests of the documents: their links lead somewhere, their
// code compiles, their conversations happen so, and the tests that they name exist. A
// client and a server written by PROTOCOL.md alone meet ours. It has no code.
//
// A fenced block says by its first line what is done with it:
//
//   - go: type-checked, as declarations or as the body of a function. What is left
//     to the application (mux, loginOf) is declared in testdata/application.go.
//     A block that begins with "package main" is built and run.
//   - js: type-checked by tsc as a module, against web/types.d.ts. What is left to
//     the page (show, banner) is declared in testdata/page.d.ts.
//   - go before, js before: code of another library, which is parsed; JavaScript is
//     also checked, as far as that goes without the library.
//   - wire: a conversation, played against a real server.
//
// Others are not looked at.
package docs
