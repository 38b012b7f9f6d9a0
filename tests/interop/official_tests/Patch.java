import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;

import java.io.File;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.implementation.MethodDelegation;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.RecoveryCommand;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.replication.BookieAutoRecoveryTest;
import org.apache.bookkeeper.replication.MarkWatch;

/** Saves two official classes into a folder: the recovery of one bookie is our command, and a watch lasts. */
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
        new ByteBuddy().redefine(BookieAutoRecoveryTest.class)
            .method(named("watchUrLedgerNode"))
            .intercept(MethodDelegation.withDefaultConfiguration().filter(named("watchUrLedgerNode"))
                .to(MarkWatch.class))
            .make().saveIn(new File(folder[0]));
    }
}
