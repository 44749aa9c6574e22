import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * Does with Curator's locks what tests/interop.rs says, one line each way.
 *
 * <pre>
 * Usage: java ZooKeeperDriver.java HOSTS
 * try LIBRARY PATH TTL_S     -> held | busy | error WHY
 * acquire LIBRARY PATH TTL_S -> held | error WHY, when it is so
 * release                    -> released | error WHY
 * </pre>
 *
 * LIBRARY is mutex, read or write. The sessions' timeout is that of the first lock.
 */
class ZooKeeperDriver {
  private final String hosts;
  private CuratorFramework client;
  private InterProcessLock held;

  private ZooKeeperDriver(String hosts) {
    this.hosts = hosts;
  }

  public static void main(String[] arguments) throws Exception {
    ZooKeeperDriver driver = new ZooKeeperDriver(arguments[0]);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(driver.answer(line.split(" ")));
    }
    System.exit(0);
  }

  private String answer(String[] words) {
    try {
      if (words[0].equals("release")) {
        held.release();
        return "released";
      }
      if (client == null) {
        int timeout = Integer.parseInt(words[3]) * 1000;
        client = CuratorFrameworkFactory.newClient(hosts, timeout, 30_000, new RetryOneTime(100));
        client.start();
      }
      InterProcessLock lock = lock(words[1], words[2]);
      if (words[0].equals("acquire")) {
        lock.acquire();
      } else if (!lock.acquire(0, TimeUnit.SECONDS)) {
        return "busy";
      }
      held = lock;
      return "held";
    } catch (Exception error) {
      return "error " + String.valueOf(error).replace('\n', ' ');
    }
  }

  private InterProcessLock lock(String library, String path) {
    switch (library) {
      case "read":
        return new InterProcessReadWriteLock(client, path).readLock();
      case "write":
        return new InterProcessReadWriteLock(client, path).writeLock();
      default:
        return new InterProcessMutex(client, path);
    }
  }
}
