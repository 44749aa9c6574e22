import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.config.Config;

/**
 * Does with Redisson what tests/interop.rs says, one line each way.
 *
 * <pre>
 * Usage: java Driver.java URL
 * try LIBRARY KEY TTL_MS -> held | busy | error WHY
 * release                -> released | error WHY
 * </pre>
 */
class Driver {
  private final RedissonClient client;
  private RLock held;

  private Driver(RedissonClient client) {
    this.client = client;
  }

  public static void main(String[] arguments) throws Exception {
    Config config = new Config();
    config.useSingleServer().setAddress(arguments[0]).setRetryAttempts(0)
        .setConnectionMinimumIdleSize(1).setConnectionPoolSize(2);
    Driver driver = new Driver(Redisson.create(config));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(driver.answer(line.split(" ")));
    }
    driver.client.shutdown();
  }

  private String answer(String[] words) throws InterruptedException {
    try {
      if (words[0].equals("release")) {
        held.unlock();
        return "released";
      }
      RLock lock = client.getLock(words[2]);
      if (!lock.tryLock(0, Long.parseLong(words[3]), TimeUnit.MILLISECONDS)) {
        return "busy";
      }
      held = lock;
      return "held";
    } catch (RedisException | IllegalMonitorStateException error) {
      return "error " + error.getMessage().replace('\n', ' ');
    }
  }
}
