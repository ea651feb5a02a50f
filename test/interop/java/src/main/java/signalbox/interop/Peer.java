// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A Java service that uses Redisson's locks, for tests. It reads requests from standard input, a line each, and writes the
 * replies to standard output, in the order in which they come:
 *
 * <pre>
 * 17 worker1 lock order/42 -1        number, thread, verb, arguments
 * 17 ok true                         number, ok, value
 * 17 error IllegalMonitorState...    number, error, what
 * </pre>
 *
 * Each thread of a name is one thread of Java, since Redisson's owner is the thread: the lines of one thread are done in
 * their order, those of several at the same time. Words are parted by one blank, so names have no blanks. See Verbs for the verbs.
 *
 * <p>Arguments of the program: how the server is reached ("single" or "cluster"), its address (redis://host:port), the
 * watchdog's lease in milliseconds, and for a cluster how messages go ("auto", "on", "off": sharded or not). For a single
 * server the fairLockWaitTimeout in milliseconds may follow.
 *
 * <p>One process may have several clients, which know nothing of each other: a thread "c1/worker1" uses the client c1. The
 * verb "open" makes it, with the arguments of the program, and returns its id; "close" ends it. Without arguments the
 * program has no client but these.
 */
public final class Peer {
    /**
     * For how many milliseconds a client waits for a reply. Redisson's own 3 s passed in a test where 200 locks took 23 s instead
     * of 2.5: one server, two Java processes and all tests wanted two processors.
     */
    private static final int PATIENCE = 60_000;

    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final PrintStream out;
    private final Map<String, ExecutorService> threads = new HashMap<>();

    private Peer(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing else writes between the replies
        Peer peer = new Peer(out);
        out.println("0 ok " + (args.length == 0 ? "-" : peer.open("", args)));
        peer.serve();
        System.exit(0); // threads may be waiting for locks
    }

    private String open(String name, String[] args) {
        RedissonClient client = Redisson.create(configOf(args));
        clients.put(name, client);
        return client.getId();
    }

    private boolean close(String name) {
        clients.remove(name).shutdown();
        return true;
    }

    private static Config configOf(String[] args) {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[2])).setThreads(4).setNettyThreads(4);
        if (args[0].equals("single") && args.length > 3) {
            config.setFairLockWaitTimeout(Long.parseLong(args[3]));
        }
        switch (args[0]) {
            case "single" -> config.useSingleServer()
                .setAddress(args[1])
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(8)
                .setTimeout(PATIENCE);
            case "cluster" -> config.useClusterServers()
                .addNodeAddress(args[1])
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1)
                .setShardedSubscriptionMode(
                    org.redisson.config.ShardedSubscriptionMode.valueOf(args[3].toUpperCase(java.util.Locale.ROOT)))
                .setTimeout(PATIENCE);
            default -> throw new IllegalArgumentException(args[0]);
        }
        return config;
    }

    private void serve() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            threads.computeIfAbsent(words[1], this::thread).execute(() -> reply(words));
        }
    }

    private ExecutorService thread(String name) {
        return Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
    }

    private void reply(String[] words) {
        String reply;
        try {
            reply = "ok " + run(words);
        } catch (Exception e) {
            reply = "error " + e.getClass().getSimpleName() + ": " + String.valueOf(e.getMessage()).replace('\n', ' ');
        }
        out.println(words[0] + " " + reply);
    }

    private Object run(String[] words) throws Exception {
        String client = words[1].substring(0, Math.max(words[1].indexOf('/'), 0));
        words[1] = words[1].substring(words[1].indexOf('/') + 1); // verbs know nothing of other clients
        switch (words[2]) {
            case "open":
                return open(client, Arrays.copyOfRange(words, 3, words.length));
            case "close":
                return close(client);
            default:
                return new Verbs(clients.get(client), words).run();
        }
    }
}
