import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;

import java.io.File;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.implementation.MethodDelegation;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.RecoveryCommand;
import org.apache.bookkeeper.net.BookieId;

/** Saves the official BookKeeperAdmin into a folder, with the recovery of one bookie left to our command. */
public final class Patch {
    private Patch() {
    }

    public static void main(String[] folder) throws Exception {
        new ByteBuddy().redefine(BookKeeperAdmin.class)
            .method(named("recoverBookieData").and(takesArgument(0, BookieId.class)))
            .intercept(MethodDelegation.withDefaultConfiguration().filter(named("recoverBookieData"))
                .to(RecoveryCommand.class))
            .method(named("asyncRecoverBookieData").and(takesArgument(0, BookieId.class)))
            .intercept(MethodDelegation.withDefaultConfiguration().filter(named("asyncRecoverBookieData"))
                .to(RecoveryCommand.class))
            .make().saveIn(new File(folder[0]));
    }
}
