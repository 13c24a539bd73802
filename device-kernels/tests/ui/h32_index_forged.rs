use device_std::Index1;

fn main() {
    let _forged = Index1 { at: 7, _brand: std::marker::PhantomData };
}
