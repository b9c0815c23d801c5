import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.elasticsearch.Version;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.metadata.IndexNameExpressionResolver;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.settings.ClusterSettings;
import org.elasticsearch.common.settings.IndexScopedSettings;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.settings.SettingsFilter;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.index.analysis.PreBuiltAnalyzerProviderFactory;
import org.elasticsearch.indices.analysis.PreBuiltCacheFactory.CachingStrategy;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.AnalysisPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.rest.RestChannel;
import org.elasticsearch.rest.RestController;
import org.elasticsearch.rest.RestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;
import org.elasticsearch.script.UpdateScript;
import org.opensearch.painless.PainlessScriptEngine;
import org.opensearch.painless.spi.Whitelist;

/**
 * Stands in for what the modules rest-root, lang-painless and analysis-common of an Elasticsearch do in
 * tests, as Maven Central does not have them: GET /, scripts of updates, and the analyzer english. The
 * scripts are compiled by OpenSearch's Painless, which is a fork of Elasticsearch's.
 */
public class ElasticsearchModules extends Plugin implements ActionPlugin, AnalysisPlugin, ScriptPlugin {
  @Override
  public Collection<RestHandler> getRestHandlers(Settings settings, NamedWriteableRegistry registry,
      RestController controller, ClusterSettings clusterSettings, IndexScopedSettings indexSettings,
      SettingsFilter filter, IndexNameExpressionResolver resolver, Supplier<DiscoveryNodes> nodes,
      Predicate<NodeFeature> features) {
    return List.of(new Root());
  }

  @Override
  public List<PreBuiltAnalyzerProviderFactory> getPreBuiltAnalyzerProviderFactories() {
    return List.of(new PreBuiltAnalyzerProviderFactory("english", CachingStrategy.ONE, EnglishAnalyzer::new));
  }

  @Override
  public ScriptEngine getScriptEngine(Settings settings, Collection<ScriptContext<?>> contexts) {
    return new Painless();
  }

  private static class Root implements RestHandler {
    @Override
    public List<Route> routes() {
      return List.of(new Route(RestRequest.Method.GET, "/"));
    }

    @Override
    public void handleRequest(RestRequest request, RestChannel channel, NodeClient client) throws Exception {
      var answer = channel.newBuilder().startObject().startObject("version")
          .field("number", Version.CURRENT.toString()).endObject()
          .field("tagline", "You Know, for Search").endObject();
      channel.sendResponse(new RestResponse(RestStatus.OK, answer));
    }
  }

  private static class Painless implements ScriptEngine {
    private final PainlessScriptEngine engine = new PainlessScriptEngine(
        org.opensearch.common.settings.Settings.EMPTY,
        Map.of(org.opensearch.script.UpdateScript.CONTEXT, Whitelist.BASE_WHITELISTS));

    @Override
    public String getType() {
      return PainlessScriptEngine.NAME;
    }

    @Override
    public Set<ScriptContext<?>> getSupportedContexts() {
      return Set.of(UpdateScript.CONTEXT);
    }

    @Override
    public <T> T compile(String name, String source, ScriptContext<T> context, Map<String, String> options) {
      var compiled = engine.compile(name, source, org.opensearch.script.UpdateScript.CONTEXT, options);
      UpdateScript.Factory factory = (params, ctx) -> new UpdateScript(params, ctx) {
        @Override
        public void execute() {
          compiled.newInstance(params, ctx).execute();
        }
      };
      return context.factoryClazz.cast(factory);
    }

    @Override
    public void close() {}
  }
}
