import java.io.*;
import java.lang.reflect.*;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import javax.tools.ToolProvider;

/**
 * One JVM that runs many programs, one after the other: Kafka's tools as they are, and ours from
 * their source.
 *
 * A call comes in as strings (jars, program, arguments...) and is answered with the exit code, what was
 * written to System.out and what to System.err. A tool leaves through Kafka's own `Exit`, whose
 * procedure is set here: the program ends, the JVM stays. A set of jars is loaded once.
 */
public class Resident {
    private static final long LEAVING_MS = 5_000;
    private static final Map<String, URLClassLoader> LOADERS = new HashMap<>();
    private static final List<Runnable> HOOKS = Collections.synchronizedList(new ArrayList<>());
    private static volatile CompletableFuture<Integer> exit = new CompletableFuture<>();

    private static class Left extends Error {
        Left() {
            super("the program has left", null, false, false);
        }
    }

    public static void main(String[] nothing) throws Exception {
        var calls = new DataInputStream(new BufferedInputStream(System.in));
        var answers = new DataOutputStream(new BufferedOutputStream(System.out));
        PrintStream own = System.err;
        while (true) {
            int count;
            try {
                count = calls.readInt();
            } catch (EOFException over) {
                Runtime.getRuntime().halt(0);
                return;
            }
            var call = new String[count];
            for (int index = 0; index < count; index++) call[index] = calls.readUTF();
            var out = new ByteArrayOutputStream();
            var err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int code = run(call[0], call[1], Arrays.copyOfRange(call, 2, count));
            System.out.flush();
            System.err.flush();
            System.setErr(own);
            answers.writeInt(code);
            for (var said : List.of(out, err)) {
                byte[] bytes = said.toByteArray();
                answers.writeInt(bytes.length);
                answers.write(bytes);
            }
            answers.flush();
        }
    }

    private static int run(String jars, String program, String[] arguments) throws Exception {
        exit = new CompletableFuture<>();
        HOOKS.clear();
        var thread = new Thread(() -> {
            try {
                ClassLoader loader = program.endsWith(".java") ? compiled(jars, program) : loaded(jars);
                Thread.currentThread().setContextClassLoader(loader);
                String name = Path.of(program).getFileName().toString().replaceAll("\\.java$", "");
                Class<?> main = Class.forName(program.endsWith(".java") ? name : program, true, loader);
                main.getMethod("main", String[].class).invoke(null, (Object) arguments);
                exit.complete(0);
            } catch (InvocationTargetException raised) {
                ended(raised.getCause());
            } catch (Throwable failed) {
                ended(failed);
            }
        }, "main");
        thread.start();
        int code = exit.get();
        thread.join(LEAVING_MS);
        for (var hook : List.copyOf(HOOKS)) hook.run();
        return code;
    }

    private static void ended(Throwable failed) {
        if (failed instanceof Left) return;
        failed.printStackTrace();
        exit.complete(1);
    }

    private static ClassLoader compiled(String jars, String source) throws Exception {
        Path classes = Files.createTempDirectory("classes");
        var paths = new ArrayList<String>();
        for (var jar : loaded(jars).getURLs()) paths.add(Path.of(jar.toURI()).toString());
        String path = String.join(File.pathSeparator, paths);
        String[] options = {"-nowarn", "-cp", path, "-d", classes.toString(), source};
        int failed = ToolProvider.getSystemJavaCompiler().run(null, null, null, options);
        if (failed != 0) throw new IllegalArgumentException(source + " does not compile");
        return new URLClassLoader(new URL[] {classes.toUri().toURL()}, loaded(jars));
    }

    private static URLClassLoader loaded(String jars) throws Exception {
        URLClassLoader known = LOADERS.get(jars);
        if (known != null) return known;
        var urls = new ArrayList<URL>();
        try (var files = Files.newDirectoryStream(Path.of(jars), "*.jar")) {
            for (var jar : files) urls.add(jar.toUri().toURL());
        }
        var loader = new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
        if (loader.findResource("org/apache/kafka/tools") != null) stay(loader);
        LOADERS.put(jars, loader);
        return loader;
    }

    /** Whoever leaves through Kafka's `Exit` ends the call; what it wanted done at exit is done. */
    private static void stay(ClassLoader loader) throws Exception {
        Class<?> door = loader.loadClass("org.apache.kafka.common.utils.Exit");
        Class<?> procedure = loader.loadClass("org.apache.kafka.common.utils.Exit$Procedure");
        InvocationHandler leave = (proxy, method, given) -> {
            if (given.length > 1 && given[1] != null) System.err.println(given[1]);
            exit.complete((Integer) given[0]);
            throw new Left();
        };
        Object left = Proxy.newProxyInstance(loader, new Class<?>[] {procedure}, leave);
        door.getMethod("setExitProcedure", procedure).invoke(null, left);
        door.getMethod("setHaltProcedure", procedure).invoke(null, left);
        Class<?> adder = loader.loadClass("org.apache.kafka.common.utils.Exit$ShutdownHookAdder");
        InvocationHandler add = (proxy, method, given) -> {
            HOOKS.add((Runnable) given[1]);
            return null;
        };
        Object added = Proxy.newProxyInstance(loader, new Class<?>[] {adder}, add);
        door.getMethod("setShutdownHookAdder", adder).invoke(null, added);
    }
}
