// draw-axes FOLDER: the pictures of docs/element.md, "Axes": the sphere that --check-axes shows to
// a model, its normals in the element's conventions, and what a light makes of them.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "axes.h"
#include "failure.h"
#include "picture_files.h"
#include "relight.h"
#include "sphere.h"

namespace {

using normalcrafter::Axes;
using normalcrafter::Flips;
using normalcrafter::flips_between;
using namespace normalcrafter::convert;  // NOLINT: a program that is this library's alone

const Sphere kSphere{112};

/// The normals of the sphere, and of the wall behind it.
class Normals {
 public:
  explicit Normals(const Flips& flips) {
    for (int y = 0; y < kSphere.size; ++y) {
      for (int x = 0; x < kSphere.size; ++x) {
        auto n = kSphere.normal(x, y).value_or(std::array<float, 3>{0, 0, 1});
        if (flips.x) n[0] = -n[0];
        if (flips.y) n[1] = -n[1];
        if (flips.z) n[2] = -n[2];
        vectors_.push_back(n);
      }
    }
  }
  NormalFrame view() const {
    NormalFrame frame;
    frame.width = frame.height = kSphere.size;
    frame.samples = Samples::Float;
    frame.data = reinterpret_cast<const std::byte*>(vectors_.data());
    frame.stride = static_cast<std::ptrdiff_t>(sizeof vectors_[0]) * kSphere.size;
    return frame;
  }

 private:
  std::vector<std::array<float, 3>> vectors_;
};

void draw(const std::string& folder) {
  const auto save = [&folder](const std::string& name, const Picture& picture) {
    OutputFile file(folder + "/axes-" + name + ".png");
    write_png(file, picture.view(), false, {});
    file.commit();
  };
  // Flips of the sphere's own vectors, which have OpenGL's axes.
  const Normals opengl{Flips{}};
  const Normals directx(*flips_between("opengl", Axes::DirectX));
  save("input", kSphere.picture(0));
  save("opengl", as_colours(opengl.view()));
  save("directx", as_colours(directx.view()));
  save("opencv", as_colours(Normals(*flips_between("opengl", Axes::OpenCv)).view()));
  save("flip-x", as_colours(Normals({.x = true}).view()));
  save("flip-z", as_colours(Normals({.z = true}).view()));
  const Light light = parse_light("-0.4,0.5,0.75", "opengl");
  save("lit", relight(opengl.view(), light));
  save("lit-wrong", relight(directx.view(), light));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: draw-axes FOLDER\n");
    return 2;
  }
  draw(argv[1]);
  return 0;
} catch (const Failure& failure) {
  std::fprintf(stderr, "draw-axes: %s\n", failure.what());
  return 1;
}
