//! Default control plane: the Unix socket of this machine.

use crate::inspect::Bed;

#[test]
fn uses_the_unix_socket_by_default() {
    let bed = Bed::start();
    let socket = bed.kodiak.home.path().join(".kodiak/kodiak.sock");
    let address = format!("unix:{}", socket.display());
    let list = || bed.kodiak.run(&["config", "control-planes", "list"]).is(0).out;
    assert!(list().contains(&format!("*        local   {address}\n")), "{}", list());
    let me = bed.kodiak.run(&["who-am-i"]).is(0).out;
    assert!(me.contains("mesh-system:admin"), "{me}");
    bed.kodiak.run(&["get", "globalsecrets"]).is(0);
    bed.kodiak.run(&["--cp", &address, "get", "globalsecrets"]).is(0);
    let version = bed.kodiak.run(&["version"]).is(0).out;
    assert!(version.contains(&address), "{version}");

    // --cp and the configuration have precedence.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}");
    assert!(bed.kodiak.run(&["--cp", &url, "get", "meshes"]).is(3).err.contains(&url));
    let add = ["config", "control-planes", "add", "--name", "other", "--address", &url, "--skip-check"];
    bed.kodiak.run(&add).is(0);
    assert!(bed.kodiak.run(&["get", "meshes"]).is(3).err.contains(&url));
    bed.kodiak.run(&["--context", "local", "get", "meshes"]).is(0);
    bed.kodiak.run(&["config", "control-planes", "switch", "--name", "local"]).is(0);
    bed.kodiak.run(&["get", "meshes"]).is(0);

    // A killed control plane leaves its socket behind.
    let Bed { kodiak, control_plane, runtime, .. } = bed;
    runtime.block_on(control_plane.stop()).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let list = kodiak.run(&["config", "control-planes", "list"]).is(0).out;
    assert!(list.contains("*        local   http://localhost:5681\n"), "{list}");
}
