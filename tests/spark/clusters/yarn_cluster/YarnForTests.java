import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A YARN of one resource manager and some node managers in this process: YarnForTests CONF_FOLDER NODE_MANAGERS DEFAULT_FS. */
public class YarnForTests {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    conf.set("fs.defaultFS", arguments[2]);
    conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
    conf.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 2048);
    conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    // A disk that is nine tenths full would take every node out. The check runs once, also where it is off.
    conf.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
    conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
    MiniYARNCluster cluster = new MiniYARNCluster("yarn", Integer.parseInt(arguments[1]), 1, 1);
    cluster.init(conf);
    cluster.start();
    try (OutputStream file = new FileOutputStream(arguments[0] + "/yarn-site.xml")) {
      cluster.getConfig().writeXml(file);
    }
    System.out.println("the cluster is up");
    Thread.currentThread().join();
  }
}
