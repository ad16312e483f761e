package web_test

import (
	"log"
	"net/http"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/web"
)

// A page of this site imports "/assets/longwire.js", which finds the rest beside it.
func ExampleHandler() {
	lw, err := server.New(server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/ws", lw)
	http.Handle("/probe", lw.Probe())
	http.Handle("/assets/", http.StripPrefix("/assets", web.Handler()))
}
