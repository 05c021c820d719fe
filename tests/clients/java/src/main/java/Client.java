import io.modelcontextprotocol.client.McpAsyncClient;
import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.transport.HttpClientStreamableHttpTransport;
import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.json.TypeRef;
import io.modelcontextprotocol.spec.McpClientTransport;
import io.modelcontextprotocol.spec.McpSchema;
import io.modelcontextprotocol.spec.McpSchema.CallToolRequest;
import io.modelcontextprotocol.spec.McpSchema.ClientCapabilities;
import io.modelcontextprotocol.spec.McpSchema.CreateMessageResult;
import io.modelcontextprotocol.spec.McpSchema.ElicitResult;
import io.modelcontextprotocol.spec.McpSchema.Implementation;
import io.modelcontextprotocol.spec.McpSchema.InitializeResult;
import io.modelcontextprotocol.spec.McpSchema.JSONRPCMessage;
import io.modelcontextprotocol.spec.McpSchema.JSONRPCNotification;
import io.modelcontextprotocol.spec.McpSchema.JSONRPCRequest;
import io.modelcontextprotocol.spec.McpSchema.ReadResourceRequest;
import io.modelcontextprotocol.spec.McpSchema.Role;
import io.modelcontextprotocol.spec.McpSchema.Root;
import io.modelcontextprotocol.spec.McpSchema.SubscribeRequest;
import io.modelcontextprotocol.spec.McpSchema.TextContent;
import io.modelcontextprotocol.spec.McpSchema.Tool;
import java.net.URI;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;

/**
 * A client of the Java SDK: connects to a server, does what a client can do, and writes what it saw
 * as one JSON object.
 *
 * <pre>Client URL REVISION FOLDER PREFIX</pre>
 *
 * URL is the everything server or a gateway in front of it, REVISION what to speak (revisions with
 * a handshake: the SDK has no other), FOLDER the client's root, PREFIX what stands before the names
 * of the server's tools.
 */
public final class Client {
    private static final Duration BOUND = Duration.ofSeconds(60);
    private static final String RESOURCE = "demo://resource/dynamic/text/1";
    private static final String LONG = "trigger-long-running-operation";
    /** In one order: that of `Map.of` is another one in each process. */
    private static final Map<String, Object> GIVEN =
            new TreeMap<>(Map.of("name", "Ada", "check", true));

    private final BlockingQueue<Object> progress = new LinkedBlockingQueue<>();
    private final BlockingQueue<String> updated = new LinkedBlockingQueue<>();
    private final String prefix;
    private final Transport transport;
    private final McpAsyncClient session;

    private Client(URI url, String revision, String folder, String prefix) {
        this.prefix = prefix;
        this.transport = new Transport(
                HttpClientStreamableHttpTransport.builder(url.resolve("/").toString())
                        .endpoint(url.getPath())
                        .supportedProtocolVersions(List.of(revision))
                        .build());
        this.session = McpClient.async(transport)
                .clientInfo(Implementation.builder("java", "1").build())
                .requestTimeout(BOUND)
                .capabilities(ClientCapabilities.builder()
                        .roots(true).sampling().elicitation().build())
                .roots(Root.builder("file://" + folder).name("mine").build())
                .sampling(asked -> Mono.just(CreateMessageResult
                        .builder(Role.ASSISTANT, "Paris, of course", "scripted").build()))
                .elicitation(asked -> Mono.just(ElicitResult.builder(ElicitResult.Action.ACCEPT)
                        .content(GIVEN).build()))
                .progressConsumer(told -> Mono.fromRunnable(() -> progress.add(told)))
                .resourcesUpdateConsumer(read -> Mono.fromRunnable(
                        () -> read.forEach(contents -> updated.add(contents.uri()))))
                .build();
    }

    public static void main(String[] given) throws Exception {
        Map<String, Object> seen = look(URI.create(given[0]), given[1], given[2], given[3]);
        System.out.println(McpJsonDefaults.getMapper().writeValueAsString(seen));
        System.exit(0);
    }

    /** Does everything once, then connects anew and calls again. */
    private static Map<String, Object> look(URI url, String revision, String folder, String prefix)
            throws Exception {
        Map<String, Object> seen = new LinkedHashMap<>();
        Client client = new Client(url, revision, folder, prefix);
        InitializeResult server = client.session.initialize().block(BOUND);
        seen.put("revision", server.protocolVersion());
        seen.put("tools", client.list(Map.of()));
        seen.put("found", client.list(Map.of("dev.armory/query", "add two numbers")));
        seen.put("echo", client.call("echo", Map.of("message", "hello")));
        seen.put("sampled", client.call("trigger-sampling-request",
                Map.of("prompt", "capital?", "maxTokens", 20)));
        seen.put("elicited", client.call("trigger-elicitation-request", Map.of()));
        seen.put("roots", client.call("get-roots-list", Map.of()));
        client.waitLong(seen);
        client.watch(seen);
        client.session.closeGracefully().block(BOUND);
        client = new Client(url, revision, folder, prefix);
        client.session.initialize().block(BOUND);
        seen.put("again", client.call("echo", Map.of("message", "again")));
        client.session.closeGracefully().block(BOUND);
        return seen;
    }

    private List<String> list(Map<String, Object> meta) {
        return session.listTools(null, meta).block(BOUND).tools().stream().map(Tool::name).toList();
    }

    private Mono<String> calling(String tool, Map<String, Object> arguments) {
        CallToolRequest request = CallToolRequest.builder(prefix + tool)
                .arguments(arguments).progressToken(tool).build();
        return session.callTool(request).map(result -> result.content().stream()
                .filter(TextContent.class::isInstance)
                .map(content -> ((TextContent) content).text())
                .collect(Collectors.joining(" ")));
    }

    private String call(String tool, Map<String, Object> arguments) {
        return calling(tool, arguments).block(BOUND);
    }

    /** Hears of the progress of one call, and gives another one up. */
    private void waitLong(Map<String, Object> seen) throws Exception {
        call(LONG, Map.of("duration", 0.2, "steps", 2));
        int heard = 0;
        while (heard < 2) {
            take(progress);
            heard++;
        }
        seen.put("progress", heard);
        BlockingQueue<Object> ended = new LinkedBlockingQueue<>();
        Disposable endless = calling(LONG, Map.of("duration", 600, "steps", 6000))
                .subscribe(ended::add, ended::add);
        take(progress);
        // The SDK gives a call up without a word to the server: that is the application's.
        endless.dispose();
        transport.sendMessage(new JSONRPCNotification("notifications/cancelled",
                Map.of("requestId", transport.called))).block(BOUND);
        seen.put("canceled", endless.isDisposed() && ended.isEmpty());
    }

    /** Subscribes to a resource, has the server change it, and hears of that. */
    private void watch(Map<String, Object> seen) throws Exception {
        String uri = session.listResources().block(BOUND).resources().stream()
                .map(entry -> entry.uri().indexOf("demo://") < 0 ? null
                        : entry.uri().substring(0, entry.uri().indexOf("demo://")) + RESOURCE)
                .filter(found -> found != null).findFirst().orElseThrow();
        seen.put("read", session.readResource(ReadResourceRequest.builder(uri).build())
                .block(BOUND).contents().size() == 1);
        session.subscribeResource(SubscribeRequest.builder(uri).build()).block(BOUND);
        call("toggle-subscriber-updates", Map.of());
        String heard = take(updated);
        seen.put("updated", heard.equals(uri) ? RESOURCE : heard);
    }

    private static <T> T take(BlockingQueue<T> queue) throws Exception {
        T found = queue.poll(BOUND.toSeconds(), TimeUnit.SECONDS);
        if (found == null) {
            throw new TimeoutException();
        }
        return found;
    }

    /** The SDK's transport, which remembers the id of the last call. */
    private static final class Transport implements McpClientTransport {
        private final McpClientTransport inner;
        private volatile Object called;

        Transport(McpClientTransport inner) {
            this.inner = inner;
        }

        @Override
        public Mono<Void> sendMessage(JSONRPCMessage message) {
            if (message instanceof JSONRPCRequest request
                    && request.method().equals(McpSchema.METHOD_TOOLS_CALL)) {
                called = request.id();
            }
            return inner.sendMessage(message);
        }

        @Override
        public Mono<Void> connect(Function<Mono<JSONRPCMessage>, Mono<JSONRPCMessage>> handler) {
            return inner.connect(handler);
        }

        @Override
        public void setExceptionHandler(Consumer<Throwable> handler) {
            inner.setExceptionHandler(handler);
        }

        @Override
        public Mono<Void> closeGracefully() {
            return inner.closeGracefully();
        }

        @Override
        public <T> T unmarshalFrom(Object data, TypeRef<T> type) {
            return inner.unmarshalFrom(data, type);
        }

        @Override
        public List<String> protocolVersions() {
            return inner.protocolVersions();
        }
    }
}
