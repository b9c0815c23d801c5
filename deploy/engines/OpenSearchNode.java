import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.knn.plugin.KNNPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * Runs one OpenSearch node for tests, on a free port of the loopback address: java
 * OpenSearchNode.java DIR. It keeps its data in DIR/opensearch and writes its URL to DIR/url once
 * it answers.
 */
class OpenSearchNode extends Node {
  private OpenSearchNode(Environment environment, List<Class<? extends Plugin>> plugins) {
    super(environment, plugins, false);
  }

  public static void main(String[] args) throws Exception {
    Path dir = Path.of(args[0]).toAbsolutePath();
    Settings settings = Settings.builder()
        .put("path.home", dir.toString())
        .put("path.data", dir.resolve("opensearch").toString())
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
    Environment environment = InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test");
    Node node = new OpenSearchNode(environment, List.of(
        Netty4Plugin.class, CommonAnalysisPlugin.class, PainlessPlugin.class, KNNPlugin.class));
    node.start();
    var address = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress();
    Path url = dir.resolve("url.new");
    Files.writeString(url, "http://127.0.0.1:" + address.getPort() + "\n");
    Files.move(url, dir.resolve("url"), StandardCopyOption.ATOMIC_MOVE);
    new CountDownLatch(1).await();
  }
}
