// A client of the Go SDK: connects to a server, does what a client can do, and writes what it saw
// as one JSON object.
//
//	client URL REVISION FOLDER PREFIX
//
// URL is the everything server or a gateway in front of it, REVISION what to speak, FOLDER the
// client's root, PREFIX what stands before the names of the server's tools.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	bound    = 60 * time.Second
	resource = "demo://resource/dynamic/text/1"
)

var (
	none   = map[string]any{}
	prefix = os.Args[4]
)

type seen struct {
	Revision string   `json:"revision"`
	Tools    []string `json:"tools"`
	Found    []string `json:"found"`
	Echo     string   `json:"echo"`
	Progress int      `json:"progress"`
	Canceled bool     `json:"canceled"`
	Sampled  string   `json:"sampled"`
	Elicited string   `json:"elicited"`
	Roots    string   `json:"roots"`
	Read     bool     `json:"read"`
	Updated  string   `json:"updated"`
	Again    string   `json:"again"`
}

func main() {
	ctx, done := context.WithTimeout(context.Background(), bound)
	defer done()
	found, err := look(ctx, os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// look does everything once, then connects anew and calls again.
func look(ctx context.Context, url, revision, folder string) (*seen, error) {
	progress, updated := make(chan struct{}, 64), make(chan string, 64)
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			said := &mcp.TextContent{Text: "Paris, of course"}
			return &mcp.CreateMessageResult{Content: said, Model: "scripted", Role: "assistant"}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			given := map[string]any{"name": "Ada", "check": true}
			return &mcp.ElicitResult{Action: "accept", Content: given}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			progress <- struct{}{}
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			updated <- r.Params.URI
		},
	})
	client.AddRoots(&mcp.Root{URI: "file://" + folder, Name: "mine"})
	session, err := connect(ctx, client, url, revision)
	if err != nil {
		return nil, err
	}
	got := &seen{Revision: session.InitializeResult().ProtocolVersion}
	if got.Tools, err = list(ctx, session, nil); err != nil {
		return nil, err
	}
	query := mcp.Meta{"dev.armory/query": "add two numbers"}
	if got.Found, err = list(ctx, session, query); err != nil {
		return nil, err
	}
	if got.Echo, err = call(ctx, session, "echo", map[string]any{"message": "hello"}); err != nil {
		return nil, err
	}
	if err := asked(ctx, session, got); err != nil {
		return nil, err
	}
	if err := long(ctx, session, got, progress); err != nil {
		return nil, err
	}
	if err := watched(ctx, session, got, updated); err != nil {
		return nil, err
	}
	if err := session.Close(); err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	if session, err = connect(ctx, client, url, revision); err != nil {
		return nil, err
	}
	defer session.Close()
	got.Again, err = call(ctx, session, "echo", map[string]any{"message": "again"})
	return got, err
}

func connect(ctx context.Context, c *mcp.Client, url, revision string) (*mcp.ClientSession, error) {
	transport := &mcp.StreamableClientTransport{Endpoint: url}
	options := &mcp.ClientSessionOptions{ProtocolVersion: revision}
	session, err := c.Connect(ctx, transport, options)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return session, nil
}

func list(ctx context.Context, s *mcp.ClientSession, meta mcp.Meta) ([]string, error) {
	listed, err := s.ListTools(ctx, &mcp.ListToolsParams{Meta: meta})
	if err != nil {
		return nil, fmt.Errorf("tools/list: %w", err)
	}
	names := []string{}
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func call(ctx context.Context, s *mcp.ClientSession, tool string, arguments map[string]any) (string, error) {
	params := &mcp.CallToolParams{Name: prefix + tool, Arguments: arguments}
	params.SetProgressToken(tool)
	result, err := s.CallTool(ctx, params)
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	words := []string{}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			words = append(words, text.Text)
		}
	}
	return strings.Join(words, " "), nil
}

// asked calls the tools that put a question to the client.
func asked(ctx context.Context, s *mcp.ClientSession, got *seen) (err error) {
	prompt := map[string]any{"prompt": "capital?", "maxTokens": 20}
	if got.Sampled, err = call(ctx, s, "trigger-sampling-request", prompt); err != nil {
		return err
	}
	if got.Elicited, err = call(ctx, s, "trigger-elicitation-request", none); err != nil {
		return err
	}
	got.Roots, err = call(ctx, s, "get-roots-list", none)
	return err
}

// long hears of the progress of one call, and gives another one up.
func long(ctx context.Context, s *mcp.ClientSession, got *seen, progress <-chan struct{}) error {
	steps := map[string]any{"duration": 0.2, "steps": 2}
	if _, err := call(ctx, s, "trigger-long-running-operation", steps); err != nil {
		return err
	}
	for got.Progress < 2 {
		select {
		case <-progress:
			got.Progress++
		case <-ctx.Done():
			return fmt.Errorf("progress: %w", ctx.Err())
		}
	}
	patience, giveUp := context.WithCancel(ctx)
	go func() {
		<-progress
		giveUp()
	}()
	endless := map[string]any{"duration": 600, "steps": 6000}
	_, err := call(patience, s, "trigger-long-running-operation", endless)
	got.Canceled = err != nil && patience.Err() != nil && ctx.Err() == nil
	return nil
}

// watched subscribes to a resource, has the server change it, and hears of that.
func watched(ctx context.Context, s *mcp.ClientSession, got *seen, updated <-chan string) error {
	resources, err := s.ListResources(ctx, nil)
	if err != nil {
		return fmt.Errorf("resources/list: %w", err)
	}
	uri := ""
	for _, entry := range resources.Resources {
		if at := strings.Index(entry.URI, "demo://"); at >= 0 {
			uri = entry.URI[:at] + resource
		}
	}
	read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return fmt.Errorf("resources/read %s: %w", uri, err)
	}
	got.Read = len(read.Contents) == 1
	if err := s.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		return fmt.Errorf("resources/subscribe: %w", err)
	}
	if _, err := call(ctx, s, "toggle-subscriber-updates", none); err != nil {
		return err
	}
	select {
	case heard := <-updated:
		if heard == uri {
			got.Updated = resource
		}
	case <-ctx.Done():
		return fmt.Errorf("resources/updated: %w", ctx.Err())
	}
	return nil
}
