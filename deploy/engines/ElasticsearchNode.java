import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * Runs one Elasticsearch node for tests, on a free port of the loopback address: java
 * ElasticsearchNode.java DIR MODULES. It loads the plugins in the folders of MODULES, keeps its data in
 * DIR/elasticsearch and writes its URL to DIR/url once it answers.
 */
class ElasticsearchNode {
  public static void main(String[] args) throws Exception {
    Path dir = Path.of(args[0]).toAbsolutePath();
    Settings settings = Settings.builder()
        .put("path.home", dir.toString())
        .put("path.data", dir.resolve("elasticsearch").toString())
        .put("cluster.name", "sidenote-test")
        .put("node.name", "test")
        .put("discovery.type", "single-node")
        .put("network.host", "127.0.0.1")
        .put("http.port", "0")
        .put("transport.port", "0")
        .put("http.type", "netty4")
        .put("transport.type", "netty4")
        .put("cluster.routing.allocation.disk.threshold_enabled", "false")
        .build();
    LogConfigurator.configureESLogging();
    Path modules = Path.of(args[1]).toAbsolutePath();
    Environment environment = InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test");
    Node node = new Node(environment,
        PluginsLoader.createPluginsLoader(PluginsLoader.loadModulesBundles(modules), Set.of(), Map.of(), false));
    node.start();
    var address = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress();
    Path url = dir.resolve("url.new");
    Files.writeString(url, "http://127.0.0.1:" + address.getPort() + "\n");
    Files.move(url, dir.resolve("url"), StandardCopyOption.ATOMIC_MOVE);
    new CountDownLatch(1).await();
  }
}
