// A certified OpenID provider of another make than provider.mjs: it registers nobody by itself.
// Prints its issuer, reads the redirect URI of the one client, "armory", and says "registered".
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	issuer := fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	people := storage.NewStorage(storage.NewUserStore(issuer))
	fmt.Println(issuer)
	input := bufio.NewScanner(os.Stdin)
	if !input.Scan() {
		return
	}
	storage.RegisterClients(storage.WebClient("armory", "the-secret-of-the-gateway", input.Text()))
	handler := exampleop.SetupServer(issuer, people, silent, false)
	go func() {
		// Whoever started it is gone: so is this.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("registered")
	if err := http.Serve(listener, handler); !errors.Is(err, net.ErrClosed) {
		log.Fatal(err)
	}
}
