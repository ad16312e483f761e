package jsbridge

// peerVariable is the environment variable that names the peer's URL to the tests
// in the browser.
const peerVariable = "LONGWIRE_TEST_PEER"
